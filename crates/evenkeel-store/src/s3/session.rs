//! Requests to a bucket: where they go, and who signs them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Builder as HttpBuilder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, redirect};
use tokio::sync::OnceCell;

use super::address::{self, Address};
use super::xml::Refusal;
use crate::error::Problem;
use crate::http::answer;

/// A connection that takes longer than this will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that sends nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(20);
/// Credentials that are valid for no longer than this are replaced.
const TOO_OLD: Duration = Duration::from_mins(1);
/// The region of buckets that are nowhere else.
pub(super) const USUAL_REGION: &str = "us-east-1";
/// The maximum size of a refusal that is read.
pub(super) const MOST_BYTES_OF_REFUSAL: usize = 1 << 16;
/// How often a request is sent again, with another region or other credentials.
const MOST_CORRECTIONS: usize = 2;
/// What a signature expects to be encoded.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
pub(super) const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// The key of an object, or nothing for the bucket.
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'static str, &'a str)],
    pub(super) headers: HeaderMap,
}

/// A bucket and how to ask for what is in it.
#[derive(Debug)]
pub(super) struct Session {
    address: Address,
    client: Client,
    /// From the environment and the profile, read when it is first needed.
    found: OnceCell<Found>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Found {
    endpoint: Option<Url>,
    region: String,
    /// `None` if nothing is signed.
    provider: Option<SharedCredentialsProvider>,
}

#[derive(Debug, Default)]
struct State {
    credentials: Option<Credentials>,
    /// The bucket's own region, if the server has told it.
    region: Option<String>,
}

impl Session {
    pub(super) fn new(address: Address) -> Result<Self, String> {
        let client = client(Some(SILENCE))?;
        Ok(Self { address, client, found: OnceCell::new(), state: Mutex::default() })
    }

    /// Sends a request. Where the server says that the bucket is in another region, or that the credentials have
    /// expired, sends it again.
    pub(super) async fn send(&self, ask: &Ask<'_>) -> Result<Response, Problem> {
        let found = self.found.get_or_try_init(|| find(&self.address)).await?;
        let mut n_corrections = 0;
        loop {
            let region = self.state().region.clone().unwrap_or_else(|| found.region.clone());
            let response = self.send_once(found, &region, ask).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let (status, headers) = (response.status(), response.headers().clone());
            let mut refusal = Refusal::read(&beginning(response).await);
            let told = headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
            refusal.region = told.map(str::to_owned).or(refusal.region);
            if n_corrections == MOST_CORRECTIONS || !self.correct(found, &region, &refusal) {
                return Err(problem(status, &headers, &refusal));
            }
            n_corrections += 1;
        }
    }

    /// Whether another attempt is worth it, now that the server has said this.
    fn correct(&self, found: &Found, used: &str, refusal: &Refusal) -> bool {
        let mut state = self.state();
        // It becomes a part of a host name.
        let is_plain = |region: &str| region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_new = |region: &&str| !region.is_empty() && is_plain(region) && *region != used;
        if let Some(region) = refusal.region.as_deref().filter(is_new) {
            state.region = Some(region.to_owned());
            return true;
        }
        found.provider.is_some() && has_expired(&refusal.code) && state.credentials.take().is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send_once(&self, found: &Found, region: &str, ask: &Ask<'_>) -> Result<Response, Problem> {
        let endpoint = found.endpoint.as_ref();
        let url = url(&self.address, endpoint, region, ask).map_err(Problem::Unsupported)?;
        let mut headers = ask.headers.clone();
        // Compressed data has other ranges.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.address.requester_pays {
            headers.insert("x-amz-request-payer", HeaderValue::from_static("requester"));
        }
        if let Some(provider) = &found.provider {
            let credentials = self.credentials(provider).await?;
            sign_request(&ask.method, &url, &mut headers, region, credentials, SignableBody::empty())
                .map_err(Problem::Unsupported)?;
        }
        let request = self.client.request(ask.method.clone(), url).headers(headers);
        request.send().await.map_err(|error| answer::broken(&error))
    }

    async fn credentials(&self, provider: &SharedCredentialsProvider) -> Result<Credentials, Problem> {
        let is_valid = |credentials: &Credentials| {
            credentials.expiry().is_none_or(|end| end > SystemTime::now() + TOO_OLD)
        };
        if let Some(known) = self.state().credentials.clone().filter(is_valid) {
            return Ok(known);
        }
        let credentials = provider.provide_credentials().await.map_err(|error| {
            let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            let why = causes.join(": ");
            Problem::Denied(format!(
                "no credentials can be had: {why}; log in, name a profile by profile= or AWS_PROFILE, or read a public \
                 bucket by anonymous=true"
            ))
        })?;
        self.state().credentials = Some(credentials.clone());
        Ok(credentials)
    }
}

/// Reads the environment and the profile.
async fn find(address: &Address) -> Result<Found, Problem> {
    let http = HttpBuilder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut of_profile = ProfileFileRegionProvider::builder();
    if let Some(profile) = &address.profile {
        of_profile = of_profile.profile_name(profile);
    }
    // Not the one that the machine is in, which it takes seconds to ask for where there is no answer: buckets elsewhere
    // say where they are.
    let region = RegionProviderChain::first_try(address.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(of_profile.build())
        .or_else(Region::from_static(USUAL_REGION))
        .region()
        .await;
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http.clone());
    loader = loader.region(region.clone());
    if address.anonymous {
        loader = loader.no_credentials();
    }
    if let Some(profile) = &address.profile {
        loader = loader.profile_name(profile);
        if !address.anonymous {
            // A profile that is named precedes keys in the environment.
            let config = ProviderConfig::without_region().with_http_client(http).with_region(region.clone());
            let provider =
                ProfileFileCredentialsProvider::builder().configure(&config).profile_name(profile).build();
            loader = loader.credentials_provider(provider);
        }
    }
    let config = loader.load().await;
    let endpoint = if let Some(endpoint) = &address.endpoint {
        Some(endpoint.clone())
    } else {
        let told = endpoint_of_environment().or_else(|| config.endpoint_url().map(str::to_owned));
        told.map(|text| address::endpoint(&text)).transpose().map_err(Problem::Unsupported)?
    };
    let region = region.map_or_else(|| USUAL_REGION.to_owned(), |region| region.to_string());
    Ok(Found { endpoint, region, provider: config.credentials_provider() })
}

/// The endpoint that the environment names.
pub(super) fn endpoint_of_environment() -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    names.into_iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
}

/// The address of a request.
fn url(address: &Address, endpoint: Option<&Url>, region: &str, ask: &Ask<'_>) -> Result<Url, String> {
    let bucket = &address.bucket;
    let base = if let Some(endpoint) = endpoint {
        endpoint.clone()
    } else {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        address::endpoint(&format!("https://s3.{region}.{domain}"))?
    };
    // The certificates of AWS are not for names with further dots.
    let is_path_style = address.path_style.unwrap_or(endpoint.is_some() || bucket.contains('.'));
    let (host, port) = (base.host_str().unwrap_or_default(), base.port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let above = base.path().trim_end_matches('/');
    let key = utf8_percent_encode(ask.key, RESERVED_IN_PATH);
    let (host, path) = if is_path_style {
        let slash = if ask.key.is_empty() { "" } else { "/" };
        (format!("{host}{port}"), format!("{above}/{bucket}{slash}{key}"))
    } else {
        (format!("{bucket}.{host}{port}"), format!("{above}/{key}"))
    };
    let encode = |text| utf8_percent_encode(text, RESERVED).to_string();
    let query: Vec<String> =
        ask.query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let url = Url::parse(&format!("{}://{host}{path}{query}", base.scheme()))
        .map_err(|error| format!("bucket {bucket} has no usable address ({error}); try path_style=true"))?;
    // What looks like a step upwards is resolved there, and would be another object.
    if url.path() != path {
        return Err("no web address leads to a name with `.` or `..` between slashes".to_owned());
    }
    Ok(url)
}

/// Adds a signature to the headers.
pub(super) fn sign_request(
    method: &Method,
    url: &Url,
    headers: &mut HeaderMap,
    region: &str,
    credentials: Credentials,
    body: SignableBody<'_>,
) -> Result<(), String> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let failed = |error: &dyn std::error::Error| format!("a request cannot be signed: {error}");
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let signed = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-amz-"));
    let signed = signed.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let request =
        SignableRequest::new(method.as_str(), url.as_str(), signed, body).map_err(|error| failed(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| failed(&error))?.into_parts();
    for header in instructions.into_parts().0 {
        let mut value = HeaderValue::from_str(header.value()).map_err(|error| failed(&error))?;
        value.set_sensitive(header.sensitive());
        headers.insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

/// The address of a request without a body, with a signature that holds for so many seconds.
pub(super) fn presign(
    method: &Method,
    mut url: Url,
    region: &str,
    credentials: Credentials,
    seconds: u64,
) -> Result<Url, String> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(Duration::from_secs(seconds));
    let failed = |error: &dyn std::error::Error| format!("an address cannot be signed: {error}");
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let unsigned = SignableBody::UnsignedPayload;
    let request = SignableRequest::new(method.as_str(), url.as_str(), std::iter::empty(), unsigned)
        .map_err(|error| failed(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| failed(&error))?.into_parts();
    for (name, value) in instructions.params() {
        url.query_pairs_mut().append_pair(name, value);
    }
    Ok(url)
}

/// A client that follows no redirects, since they would need other signatures. A server that sends nothing for as long
/// as `silence` has died.
pub(super) fn client(silence: Option<Duration>) -> Result<Client, String> {
    // Whoever installs a provider first wins, and all of them are this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
    if let Some(silence) = silence {
        builder = builder.read_timeout(silence);
    }
    if let Some(path) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) {
        let wrong = |why: String| format!("cannot use {} (AWS_CA_BUNDLE): {why}", path.display());
        let pem = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let certificates =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.to_string()))?;
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|error| format!("cannot set up HTTP: {error}"))
}

/// The beginning of a body, as text.
pub(super) async fn beginning(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && bytes.len() < MOST_BYTES_OF_REFUSAL
    {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn has_expired(code: &str) -> bool {
    matches!(code, "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "RequestExpired")
}

/// What a refusal means.
pub(super) fn problem(status: reqwest::StatusCode, headers: &HeaderMap, refusal: &Refusal) -> Problem {
    let Refusal { code, message, .. } = refusal;
    let told = match (code.as_str(), message.as_str()) {
        ("", _) => status.to_string(),
        (code, "") => code.to_owned(),
        (code, message) => format!("{code}: {}", message.trim_end_matches('.')),
    };
    let told = match answer::skew(headers, SystemTime::now()) {
        Some(skew) if status == reqwest::StatusCode::FORBIDDEN => format!("{told}; {skew}"),
        _ => told,
    };
    let plain = answer::refusal(status, headers);
    match code.as_str() {
        "NoSuchKey" | "NoSuchVersion" | "NoSuchBucket" => Problem::NotFound,
        "InvalidObjectState" => {
            let class = refusal.storage_class.as_deref().unwrap_or("another storage class");
            Problem::Unsupported(format!(
                "is archived ({class}); restore it first, then run the command again"
            ))
        }
        "InvalidToken" | "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AuthorizationHeaderMalformed" => {
            Problem::Denied(told)
        }
        code if has_expired(code) => Problem::Denied(told),
        "SlowDown" | "Throttling" | "ThrottlingException" | "RequestLimitExceeded" => match plain {
            Some(refused @ Problem::Refused { .. }) => refused,
            _ => Problem::Refused { retry_after: None },
        },
        "RequestTimeout" => Problem::Unreachable(told),
        "PermanentRedirect" | "TemporaryRedirect" => {
            Problem::Unsupported(format!("the bucket is elsewhere ({told}); give its endpoint or region"))
        }
        _ => match plain {
            Some(Problem::Denied(_)) => Problem::Denied(told),
            Some(Problem::Unreachable(_)) => Problem::Unreachable(told),
            Some(Problem::Unsupported(_)) | None => {
                Problem::Unsupported(format!("the server answers {told}"))
            }
            Some(other) => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;

    fn url_of(text: &str, region: &str, key: &str) -> Result<String, String> {
        let address: Address = text.parse()?;
        let query = [("prefix", "a b/+é")];
        let query: &[(&str, &str)] = if key.is_empty() { &query } else { &[] };
        let ask = Ask { method: Method::GET, key, query, headers: HeaderMap::new() };
        url(&address, address.endpoint.as_ref(), region, &ask).map(String::from)
    }

    #[test]
    fn buckets_have_addresses() {
        let cases = [
            ("s3://b", "eu-west-1", "k", "https://b.s3.eu-west-1.amazonaws.com/k"),
            ("s3://b.c", "eu-west-1", "k", "https://s3.eu-west-1.amazonaws.com/b.c/k"),
            ("s3://b", "cn-north-1", "k", "https://b.s3.cn-north-1.amazonaws.com.cn/k"),
            (
                "s3://b?path_style",
                "x",
                "a/ä b+%?#//",
                "https://s3.x.amazonaws.com/b/a/%C3%A4%20b%2B%25%3F%23//",
            ),
            ("s3://b?endpoint=http://h:3900", "x", "", "http://h:3900/b?prefix=a%20b%2F%2B%C3%A9"),
            ("s3://b?endpoint=http://h:80/s3/", "x", "k", "http://h/s3/b/k"),
            ("s3://b?endpoint=http://h:3900&path_style=false", "x", "k", "http://b.h:3900/k"),
        ];
        for (address, region, key, expected) in cases {
            assert_eq!(url_of(address, region, key).as_deref(), Ok(expected));
        }
        for key in ["../k", "a/./b", "a/%2e%2e/b/..", ".."] {
            assert!(url_of("s3://b", "x", key).is_err(), "{key}");
        }
    }

    #[test]
    fn refusals_mean_what_s3_documents() {
        let judge = |status: u16, code: &str| {
            let refusal = Refusal { code: code.into(), message: "Because.".into(), ..Refusal::default() };
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_static("7"));
            problem(StatusCode::from_u16(status).expect("a status"), &headers, &refusal)
        };
        let denied = |code: &str| Problem::Denied(format!("{code}: Because"));
        assert_eq!(judge(400, "ExpiredToken"), denied("ExpiredToken"));
        assert_eq!(judge(403, "AccessDenied"), denied("AccessDenied"));
        assert_eq!(judge(403, "RequestTimeTooSkewed"), denied("RequestTimeTooSkewed"));
        assert_eq!(judge(403, ""), Problem::Denied("403 Forbidden".into()));
        assert_eq!(judge(404, "NoSuchBucket"), Problem::NotFound);
        assert_eq!(judge(412, "PreconditionFailed"), Problem::Changed);
        assert_eq!(judge(416, "InvalidRange"), Problem::Changed);
        assert_eq!(judge(503, "SlowDown"), Problem::Refused { retry_after: Some(Duration::from_secs(7)) });
        assert_eq!(judge(400, "SlowDown"), Problem::Refused { retry_after: None });
        assert_eq!(judge(500, "InternalError"), Problem::Unreachable("InternalError: Because".into()));
        let archived = judge(403, "InvalidObjectState").to_string();
        assert!(archived.contains("is archived (another storage class); restore it"), "{archived}");
        assert!(matches!(judge(400, "InvalidRequest"), Problem::Unsupported(_)));
        assert!(matches!(judge(301, "PermanentRedirect"), Problem::Unsupported(_)));
    }

    #[test]
    fn secrets_stay_secret() {
        let mut headers = HeaderMap::new();
        let url = Url::parse("https://b.s3.us-east-1.amazonaws.com/k").expect("an address");
        let credentials = Credentials::new("AKID", "SECRET", Some("TOKEN".into()), None, "test");
        let body = SignableBody::empty();
        sign_request(&Method::GET, &url, &mut headers, "us-east-1", credentials, body)
            .expect("it can be signed");
        let shown = format!("{headers:?}");
        assert!(!shown.contains("SECRET") && !shown.contains("TOKEN"), "{shown}");
        let authorization = headers["authorization"].to_str().expect("it is text");
        assert!(authorization.contains("/us-east-1/s3/aws4_request"), "{authorization}");
        assert!(authorization.contains("host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
    }
}
