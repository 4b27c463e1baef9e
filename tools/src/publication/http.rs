//! Web servers, and object stores that speak S3.

use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::http::{StatusCode, header};
use ureq::{Agent, Body};

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

impl Web {
    pub(crate) fn new(location: &str) -> Result<Self, String> {
        let place = match location.strip_prefix("s3://") {
            Some(rest) => bucket(rest)?,
            None => Place::Address(format!("{}/", location.trim_end_matches('/'))),
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("bloomfile/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(Duration::from_secs(30)))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .build();
        Ok(Web { agent: config.into(), place })
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

    pub(crate) fn get(&self, name: &str, from: u64) -> Result<Answer, Trouble> {
        let mut request =
            self.agent.get(self.address(name)).header(header::ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        if matches!(name, super::MANIFEST | super::SIGNATURE) {
            // A cache in between may not answer with what it had before.
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        let response = request
            .call()
            .map_err(|error| Trouble::transient(format!("{name} cannot be fetched: {error}")))?;
        let status = response.status();
        let number = |name: header::HeaderName| -> Option<String> {
            Some(response.headers().get(name)?.to_str().ok()?.to_owned())
        };
        let length = number(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        let range = number(header::CONTENT_RANGE);
        let (start, total) = match status {
            StatusCode::OK => (0, length),
            StatusCode::PARTIAL_CONTENT => {
                let range = range.as_deref().and_then(parse_range);
                let (start, total) = range.ok_or_else(|| {
                    Trouble::permanent(format!("{name}: the server answers with no sensible range"))
                })?;
                if start != from {
                    return Err(Trouble::permanent(format!(
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
                return Err(Trouble::permanent(format!("{name}: the server answers {status}")));
            }
        };
        let body: Body = response.into_body();
        Ok(Answer { start, total, body: Box::new(body.into_reader()) })
    }
}

/// Start and total of `bytes START-END/TOTAL`.
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total: Option<u64> = if total == "*" { None } else { Some(total.parse().ok()?) };
    let sound = start <= end && total.is_none_or(|total| end < total);
    sound.then_some((start, total))
}

/// A bucket and a folder in it, with what the usual variables say.
fn bucket(rest: &str) -> Result<Place, String> {
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err("has no bucket; write s3://BUCKET/FOLDER".into());
    }
    let variable = |names: &[&str]| {
        names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    };
    let region =
        variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".into());
    let endpoint = variable(&["AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
    // Stores of one's own know no names of hosts for buckets.
    let style = if endpoint.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let url = endpoint.parse().map_err(|error| format!("the endpoint {endpoint}: {error}"))?;
    let bucket = Bucket::new(url, style, name.to_owned(), region)
        .map_err(|error| format!("the bucket {name}: {error}"))?;
    let key = variable(&["AWS_ACCESS_KEY_ID"]).zip(variable(&["AWS_SECRET_ACCESS_KEY"]));
    let credentials = key.map(|(key, secret)| match variable(&["AWS_SESSION_TOKEN"]) {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    });
    let prefix = prefix.trim_end_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Ok(Place::Bucket { bucket: Box::new(bucket), prefix, credentials })
}

#[cfg(test)]
mod tests {
    use super::parse_range;

    #[test]
    fn ranges() {
        assert_eq!(parse_range("bytes 10-19/30"), Some((10, Some(30))));
        assert_eq!(parse_range("bytes 10-19/*"), Some((10, None)));
        for wrong in ["", "bytes */30", "bytes 19-10/30", "bytes 10-30/30", "bytes 1-2", "10-19/30"]
        {
            assert_eq!(parse_range(wrong), None, "{wrong}");
        }
    }
}
