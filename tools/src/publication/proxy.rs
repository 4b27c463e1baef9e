//! Proxies, as the usual variables name them.

use ureq::{Proxy, ProxyProtocol};

use super::http::variable;

/// The proxy for addresses of this scheme, if one is named.
///
/// The HTTP client would take the first that any variable names, go on without one that it cannot use,
/// and leave out what speaks SOCKS: requests would then go where they must not, in silence.
pub(super) fn from_environment(scheme: &str) -> Result<Option<Proxy>, String> {
    let names = if scheme == "http" {
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let named = names.iter().find_map(|&name| Some((name, variable(&[name])?)));
    let Some((name, address)) = named else { return Ok(None) };
    // Without the address, which may hold a password.
    let unusable =
        |error: ureq::Error| format!("the proxy that {name} names cannot be used: {error}");
    let proxy = Proxy::new(&address).map_err(unusable)?;
    if !matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
        return Err(format!(
            "the proxy that {name} names speaks {}, which this program does not; name one whose \
             address begins with http:// or https://, or none",
            proxy.protocol()
        ));
    }
    let mut builder = Proxy::builder(proxy.protocol()).host(proxy.host()).port(proxy.port());
    if let Some(user) = proxy.username() {
        builder = builder.username(user);
    }
    if let Some(password) = proxy.password() {
        builder = builder.password(password);
    }
    let without = variable(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    for host in without.split(',').map(str::trim) {
        match host.trim_start_matches('*').trim_start_matches('.') {
            "" if host == "*" => builder = builder.no_proxy("*"),
            "" => {}
            // A name stands for the names below it, too.
            host => builder = builder.no_proxy(host).no_proxy(&format!(".{host}")),
        }
    }
    builder.build().map(Some).map_err(unusable)
}
