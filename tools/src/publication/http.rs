//! Web servers, and object stores that speak S3.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::http::{HeaderMap, StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::proxy;
use super::source::{Answer, Trouble};

/// How long a signed address is good for: a request is made at once.
const SIGNED_FOR: Duration = Duration::from_secs(900);

/// A folder on the web.
pub(crate) struct Web {
    agent: Agent,
    place: Place,
}

enum Place {
    /// An address that ends in a slash.
    Address(String),
    Bucket {
        bucket: Box<Bucket>,
        prefix: String,
        credentials: Option<Credentials>,
    },
}

impl Place {
    /// What is spoken with the server.
    fn scheme(&self) -> &str {
        match self {
            Place::Address(address) => address.split_once(':').map_or("", |(scheme, _)| scheme),
            Place::Bucket { bucket, .. } => bucket.base_url().scheme(),
        }
    }

    /// What to do about an answer that refuses the request.
    fn advice(&self, status: StatusCode) -> &'static str {
        match self {
            Place::Bucket { credentials: None, .. } if status == StatusCode::FORBIDDEN => {
                "; the request was not signed: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not \
                 set, and profiles and roles of an instance are not read"
            }
            _ => "",
        }
    }
}

/// What tells versions of a file apart: the server's `ETag`, or the time at which it was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    entity: Option<String>,
    modified: Option<String>,
}

impl Tag {
    fn of(headers: &HeaderMap) -> Self {
        Tag { entity: text(headers, header::ETAG), modified: text(headers, header::LAST_MODIFIED) }
    }

    /// Whether a change of the file is sure to be noticed: times go by seconds.
    pub(crate) fn is_strong(&self) -> bool {
        self.strong().is_some()
    }

    /// The `ETag`, if it stands for the bytes: a weak one does not, and matches nothing.
    fn strong(&self) -> Option<&str> {
        self.entity.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}

/// A part of a file.
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole file.
    pub(crate) total: u64,
    pub(crate) tag: Tag,
}

impl Web {
    pub(crate) fn new(location: &str) -> Result<Self, String> {
        let place = match location.strip_prefix("s3://") {
            Some(rest) => bucket(rest)?,
            None => Place::Address(format!("{}/", location.trim_end_matches('/'))),
        };
        let mut tls = TlsConfig::builder();
        if let Some(path) = variable(&["SSL_CERT_FILE"]) {
            tls = tls.root_certs(certificates(&path)?);
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .proxy(proxy::from_environment(place.scheme())?)
            .http_status_as_error(false)
            .user_agent(concat!("bloomfile/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(Duration::from_secs(30)))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .build();
        Ok(Web { agent: config.into(), place })
    }

    /// The file at an address, and its name in there.
    pub(crate) fn of_file(location: &str) -> Result<(Self, String), String> {
        match location.strip_prefix("s3://") {
            Some(rest) => {
                let (bucket, name) = rest.split_once('/').unwrap_or((rest, ""));
                if name.is_empty() {
                    return Err("has no name in the bucket; write s3://BUCKET/FILE".into());
                }
                Ok((Self::new(&format!("s3://{bucket}"))?, name.to_owned()))
            }
            None => {
                let mut web = Self::new(location)?;
                web.place = Place::Address(location.to_owned());
                Ok((web, String::new()))
            }
        }
    }

    /// A range of a file, which ends where the file does if that is before the range does. With a tag,
    /// of the version that has it.
    pub(crate) fn range(
        &self,
        name: &str,
        range: Range<u64>,
        tag: Option<&Tag>,
    ) -> Result<Part, Trouble> {
        let (first, last) = (range.start, range.end - 1);
        let mut request = self
            .agent
            .get(self.address(name))
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::RANGE, format!("bytes={first}-{last}"));
        if let Some(tag) = tag.and_then(Tag::strong) {
            request = request.header(header::IF_MATCH, tag);
        }
        let response = request
            .call()
            .map_err(|error| Trouble::transient(format!("cannot be fetched: {error}")))?;
        let status = response.status();
        match status {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => {
                return Err(Trouble::wrong(
                    "the server answers with the whole file where a part was asked for (200, not \
                     206): it serves no ranges; fetch the file, and ask that",
                ));
            }
            StatusCode::PRECONDITION_FAILED => {
                return Err(Trouble::changed("was replaced while it was read"));
            }
            StatusCode::RANGE_NOT_SATISFIABLE if tag.is_some() => {
                return Err(Trouble::changed("became shorter while it was read"));
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(Trouble::wrong(format!(
                    "the server answers {status}: the file is empty, and no bloomfile"
                )));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                return Err(Trouble::missing(format!("is not there ({status})")));
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(Trouble::transient(format!("the server answers {status}")));
            }
            status => {
                let advice = self.place.advice(status);
                return Err(Trouble::wrong(format!("the server answers {status}{advice}")));
            }
        }
        let found = text(response.headers(), header::CONTENT_RANGE);
        let Some((found, Some(total))) = found.as_deref().and_then(parse_range) else {
            return Err(Trouble::wrong("the server answers with no sensible range"));
        };
        let new = Tag::of(response.headers());
        if tag.is_some_and(|tag| *tag != new) {
            return Err(Trouble::changed("was replaced while it was read"));
        }
        let expected = first..range.end.min(total);
        if found != expected {
            return Err(Trouble::wrong(format!(
                "the server answers with bytes {} to {}, and was asked for {first} to {}",
                found.start,
                found.end - 1,
                expected.end.saturating_sub(1)
            )));
        }
        let length = expected.end - expected.start;
        let mut bytes = Vec::new();
        let read = response.into_body().into_reader().take(length + 1).read_to_end(&mut bytes);
        read.map_err(|error| Trouble::transient(format!("an answer was cut short: {error}")))?;
        if bytes.len() as u64 != length {
            return Err(Trouble::transient(format!(
                "an answer has {} bytes, and says that it has {length}",
                bytes.len()
            )));
        }
        Ok(Part { bytes, total, tag: new })
    }

    fn address(&self, name: &str) -> String {
        match &self.place {
            Place::Address(address) => format!("{address}{name}"),
            Place::Bucket { bucket, prefix, credentials } => {
                let object = format!("{prefix}{name}");
                bucket.get_object(credentials.as_ref(), &object).sign(SIGNED_FOR).to_string()
            }
        }
    }

    /// The bytes of a file from an offset on.
    pub(crate) fn get(&self, name: &str, from: u64) -> Result<Answer, Trouble> {
        let answer = self.get_unless(name, from, None)?;
        answer.ok_or_else(|| {
            Trouble::wrong(format!("{name}: the server answers 304, and was not asked for that"))
        })
    }

    /// The same, or `None` if the file still has the tag that is known.
    pub(crate) fn get_unless(
        &self,
        name: &str,
        from: u64,
        known: Option<&str>,
    ) -> Result<Option<Answer>, Trouble> {
        let mut request =
            self.agent.get(self.address(name)).header(header::ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        if matches!(name, super::MANIFEST | super::SIGNATURE) {
            // A cache in between may not answer with what it had before.
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        if let Some(known) = known {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        let response = request
            .call()
            .map_err(|error| Trouble::transient(format!("{name} cannot be fetched: {error}")))?;
        let status = response.status();
        let length = text(response.headers(), header::CONTENT_LENGTH);
        let length = length.and_then(|text| text.parse::<u64>().ok());
        let range = text(response.headers(), header::CONTENT_RANGE);
        let tag = text(response.headers(), header::ETAG);
        let (start, total) = match status {
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
            StatusCode::OK => (0, length),
            StatusCode::PARTIAL_CONTENT => {
                let range = range.as_deref().and_then(parse_range);
                let (Range { start, .. }, total) = range.ok_or_else(|| {
                    Trouble::wrong(format!("{name}: the server answers with no sensible range"))
                })?;
                if start != from {
                    return Err(Trouble::wrong(format!(
                        "{name}: the server answers with bytes from {start} on, and was asked for \
                         those from {from} on"
                    )));
                }
                (start, total)
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                return Err(Trouble::missing(format!("{name} is not there ({status})")));
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(Trouble::transient(format!("{name}: the server answers {status}")));
            }
            status => {
                let advice = self.place.advice(status);
                return Err(Trouble::wrong(format!("{name}: the server answers {status}{advice}")));
            }
        };
        let body: Body = response.into_body();
        Ok(Some(Answer { start, total, tag, body: Box::new(body.into_reader()) }))
    }
}

/// The value of a header.
fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Range and total of `bytes FIRST-LAST/TOTAL`.
fn parse_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let (start, last): (u64, u64) = (start.parse().ok()?, last.parse().ok()?);
    let total: Option<u64> = if total == "*" { None } else { Some(total.parse().ok()?) };
    let sound = start <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    sound.then(|| (start..last + 1, total))
}

/// The first of these variables that is set.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The certificates that are trusted, from a file in PEM form.
fn certificates(path: &str) -> Result<RootCerts, String> {
    let unusable = |reason: String| format!("SSL_CERT_FILE, {path}, cannot be used: {reason}");
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| unusable(error.to_string()))?
        {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(unusable("there is no certificate in it".into()));
    }
    Ok(RootCerts::Specific(Arc::new(found)))
}

/// A bucket and a folder in it, with what the usual variables say.
fn bucket(rest: &str) -> Result<Place, String> {
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err("has no bucket; write s3://BUCKET/FOLDER".into());
    }
    let region =
        variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".into());
    let endpoint = variable(&["AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
    // Stores of one's own know no names of hosts for buckets.
    let style = if endpoint.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let url = endpoint.parse().map_err(|error| format!("the endpoint {endpoint}: {error}"))?;
    let bucket = Bucket::new(url, style, name.to_owned(), region)
        .map_err(|error| format!("the bucket {name}: {error}"))?;
    let [key, secret] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|it| variable(&[it]));
    let credentials = match (key, secret) {
        (Some(key), Some(secret)) => Some(match variable(&["AWS_SESSION_TOKEN"]) {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        }),
        (None, None) => None,
        _ => {
            return Err(
                "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set; set both, \
                        or none for a bucket that all may read"
                    .into(),
            );
        }
    };
    let prefix = prefix.trim_end_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Ok(Place::Bucket { bucket: Box::new(bucket), prefix, credentials })
}

#[cfg(test)]
mod tests {
    use super::parse_range;

    #[test]
    fn ranges() {
        assert_eq!(parse_range("bytes 10-19/30"), Some((10..20, Some(30))));
        assert_eq!(parse_range("bytes 10-19/*"), Some((10..20, None)));
        for wrong in ["", "bytes */30", "bytes 19-10/30", "bytes 10-30/30", "bytes 1-2", "10-19/30"]
        {
            assert_eq!(parse_range(wrong), None, "{wrong}");
        }
    }
}
