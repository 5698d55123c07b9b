//! Unfinished uploads of S3, which a process leaves that dies: they cost space, and no list of objects
//! shows them.
//!
//! The crate `object_store` has no request for their list, so this one is sent here, signed by that
//! crate. Google's uploads are not listed; a rule of the bucket removes them there, and Azure's go by themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use leafpress::{Error, Result};
use object_store::ClientOptions;
use object_store::aws::{
    AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key, AwsAuthorizer, AwsCredentialProvider,
};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::signer::Signer as _;
use quick_xml::Reader;
use quick_xml::events::Event;
use reqwest::Method;
use url::Url;

use crate::runtime::wait;

const REGION_DEFAULT: &str = "us-east-1";
/// Attempts of a request that the store does not answer.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// The options of a client, but the type of what it sends.
const OPTIONS: [ClientConfigKey; 19] = [
    ClientConfigKey::AllowHttp,
    ClientConfigKey::AllowInvalidCertificates,
    ClientConfigKey::ConnectTimeout,
    ClientConfigKey::Http1Only,
    ClientConfigKey::Http2KeepAliveInterval,
    ClientConfigKey::Http2KeepAliveTimeout,
    ClientConfigKey::Http2KeepAliveWhileIdle,
    ClientConfigKey::Http2MaxFrameSize,
    ClientConfigKey::Http2Only,
    ClientConfigKey::NoSystemCertificates,
    ClientConfigKey::PoolIdleTimeout,
    ClientConfigKey::PoolMaxIdlePerHost,
    ClientConfigKey::ProxyCaCertificate,
    ClientConfigKey::ProxyExcludes,
    ClientConfigKey::ProxyUrl,
    ClientConfigKey::RandomizeAddresses,
    ClientConfigKey::ReadTimeout,
    ClientConfigKey::Timeout,
    ClientConfigKey::UserAgent,
];

/// The uploads of a bucket.
#[derive(Debug, Clone)]
pub struct Unfinished {
    store: Arc<AmazonS3>,
    client: HttpClient,
    region: String,
    is_signed: bool,
}

/// An upload that was begun.
#[derive(Debug, Default, PartialEq)]
pub struct Upload {
    pub key: Path,
    pub id: String,
    pub initiated: Option<SystemTime>,
}

/// One page of the list, and where the next one begins.
#[derive(Debug, Default)]
struct Page {
    uploads: Vec<Upload>,
    next: Option<(String, String)>,
}

impl Unfinished {
    /// The uploads of the bucket of a store.
    ///
    /// # Errors
    /// [`Misuse`](leafpress::ErrorKind::Misuse) if the configuration contradicts itself.
    pub fn new(builder: &AmazonS3Builder, store: Arc<AmazonS3>) -> Result<Self> {
        let given = |key: &Key| builder.get_config_value(key);
        let client = ReqwestConnector::default().connect(&options_of(builder));
        let client = client.map_err(|error| Error::misuse(error.to_string()))?;
        let region = given(&Key::Region).unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let is_signed = given(&Key::SkipSignature).is_none_or(|skip| skip != "true");
        Ok(Self { store, client, region, is_signed })
    }

    /// The uploads of keys below a prefix. A store that has no such list has none.
    ///
    /// # Errors
    /// Those of the store, inside.
    pub fn list(&self, below: &Path) -> Result<object_store::Result<Vec<Upload>>> {
        let (this, below) = (self.clone(), format!("{below}/"));
        wait(async move {
            let mut uploads = Vec::new();
            let mut from = None;
            loop {
                let page = this.page(&below, from.as_ref()).await?;
                uploads.extend(page.uploads);
                match page.next {
                    Some(next) if Some(&next) != from.as_ref() => from = Some(next),
                    _ => return Ok(uploads),
                }
            }
        })
    }

    /// Aborts an upload, whose pieces are removed.
    ///
    /// # Errors
    /// Those of the store, inside.
    pub fn abort(&self, key: &Path, id: &str) -> Result<object_store::Result<()>> {
        let (store, key, id) = (Arc::clone(&self.store), key.clone(), id.to_owned());
        wait(async move { store.abort_multipart(&key, &id).await })
    }

    async fn page(
        &self,
        below: &str,
        from: Option<&(String, String)>,
    ) -> object_store::Result<Page> {
        let url = self.url(below, from).await?;
        let mut attempt = 1;
        loop {
            match self.ask(&url).await {
                Err(object_store::Error::Generic { .. }) if attempt < ATTEMPTS_MAX => attempt += 1,
                answer => return answer,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// URL of a page of the list: that of an object, without its name, in whichever style the
    /// store is addressed.
    async fn url(&self, below: &str, from: Option<&(String, String)>) -> object_store::Result<Url> {
        let expires = Duration::from_secs(1);
        let mut url = self.store.signed_url(Method::GET, &Path::from("x"), expires).await?;
        if let Ok(mut names) = url.path_segments_mut() {
            names.pop();
        }
        url.set_query(None);
        let mut query = url.query_pairs_mut();
        query.append_pair("uploads", "").append_pair("prefix", below);
        if let Some((key, id)) = from {
            query.append_pair("key-marker", key).append_pair("upload-id-marker", id);
        }
        drop(query);
        Ok(url)
    }

    async fn ask(&self, url: &Url) -> object_store::Result<Page> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(failed)?;
        if self.is_signed {
            let credential = credential(self.store.credentials()).await?;
            AwsAuthorizer::new(&credential, "s3", &self.region)
                .try_authorize(&mut request, None)?;
        }
        let response = self.client.execute(request).await.map_err(failed)?;
        let status = response.status();
        let body = response.into_body().bytes().await.map_err(failed)?;
        let text = String::from_utf8_lossy(&body);
        match status.as_u16() {
            200 => read_page(&text).map_err(failed),
            // The store has no such list.
            405 | 501 => Ok(Page::default()),
            401 | 403 => Err(object_store::Error::PermissionDenied {
                path: url.path().to_owned(),
                source: format!("{status}: {text}").into(),
            }),
            _ => Err(failed(format!("{status}: {text}"))),
        }
    }
}

/// The options of the store's client, which the builder gives one by one.
fn options_of(builder: &AmazonS3Builder) -> ClientOptions {
    OPTIONS.into_iter().fold(ClientOptions::default(), |options, key| {
        match builder.get_config_value(&Key::Client(key)) {
            Some(value) => options.with_config(key, value),
            None => options,
        }
    })
}

async fn credential(
    provider: &AwsCredentialProvider,
) -> object_store::Result<Arc<object_store::aws::AwsCredential>> {
    provider.get_credential().await
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: source.into() }
}

/// Reads the answer `ListMultipartUploadsResult`.
fn read_page(xml: &str) -> std::result::Result<Page, String> {
    let mut reader = Reader::from_str(xml);
    let mut page = Page::default();
    let mut upload: Option<Upload> = None;
    let (mut text, mut next, mut is_truncated) =
        (String::new(), <(String, String)>::default(), false);
    loop {
        match reader.read_event().map_err(|error| format!("its list of uploads: {error}"))? {
            Event::Start(tag) => {
                text.clear();
                if tag.local_name().as_ref() == b"Upload" {
                    upload = Some(Upload::default());
                }
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|error| error.to_string())?),
            Event::GeneralRef(name) => text.push_str(&entity(&name)?),
            Event::End(tag) => match (tag.local_name().as_ref(), &mut upload) {
                (b"Upload", found) => page.uploads.extend(found.take()),
                (b"Key", Some(upload)) => {
                    upload.key = Path::parse(&text).map_err(|error| error.to_string())?;
                }
                (b"UploadId", Some(upload)) => upload.id.clone_from(&text),
                (b"Initiated", Some(upload)) => {
                    upload.initiated = text.parse::<Timestamp>().ok().map(SystemTime::from);
                }
                (b"NextKeyMarker", None) => next.0.clone_from(&text),
                (b"NextUploadIdMarker", None) => next.1.clone_from(&text),
                (b"IsTruncated", None) => is_truncated = text == "true",
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    page.next = is_truncated.then_some(next);
    Ok(page)
}

/// The character of a reference such as `&amp;`.
fn entity(name: &quick_xml::events::BytesRef<'_>) -> std::result::Result<String, String> {
    if let Some(character) = name.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.to_string());
    }
    let name = name.decode().map_err(|error| error.to_string())?;
    let found = quick_xml::escape::resolve_predefined_entity(&name).map(str::to_owned);
    found.ok_or_else(|| format!("&{name}; has no meaning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_has_all_options_of_the_store() {
        // By their names in the environment.
        let given = [
            ("allow_http", "true"),
            ("allow_invalid_certificates", "true"),
            ("connect_timeout", "7 seconds"),
            ("disable_system_certificates", "true"),
            ("http1_only", "true"),
            ("http2_keep_alive_interval", "8 seconds"),
            ("pool_idle_timeout", "9 seconds"),
            ("pool_max_idle_per_host", "3"),
            ("proxy_ca_certificate", "a certificate"),
            ("proxy_excludes", "localhost"),
            ("proxy_url", "http://proxy:3128"),
            ("read_timeout", "10 seconds"),
            ("timeout", "2 minutes"),
            ("user_agent", "a program"),
        ];
        let builder = given.iter().fold(AmazonS3Builder::new(), |builder, (name, value)| {
            let key = format!("aws_{name}").parse().expect("a key");
            builder.with_config(key, *value)
        });
        let options = options_of(&builder);
        for (name, value) in given {
            let key = name.parse().expect("a key");
            let found = options.get_config_value(&key);
            assert_eq!(found, builder.get_config_value(&Key::Client(key)), "{name}");
            let known = ClientOptions::default().with_config(key, value).get_config_value(&key);
            assert_eq!(found, known, "{name}");
        }
    }

    #[test]
    fn a_page_of_uploads_is_read() {
        let xml = "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"http://s3\">\
            <Bucket>b</Bucket><KeyMarker></KeyMarker><NextKeyMarker>p/b&amp;c</NextKeyMarker>\
            <NextUploadIdMarker>9</NextUploadIdMarker><IsTruncated>true</IsTruncated>\
            <Upload><Key>p/a&#38;b</Key><UploadId>7</UploadId><Owner><ID>x</ID></Owner>\
            <Initiated>2026-11-25T08:00:00.000Z</Initiated></Upload>\
            <Upload><Key>p/b</Key><UploadId>8</UploadId></Upload></ListMultipartUploadsResult>";
        let page = read_page(xml).expect("a page");
        assert_eq!(page.next, Some(("p/b&c".to_owned(), "9".to_owned())));
        let found: Vec<_> =
            page.uploads.iter().map(|upload| (upload.key.as_ref(), &*upload.id)).collect();
        assert_eq!(found, [("p/a&b", "7"), ("p/b", "8")]);
        let at = page.uploads[0].initiated.and_then(|at| Timestamp::try_from(at).ok());
        assert_eq!(at.map(Timestamp::as_second), Some(1_795_593_600));
        assert_eq!(page.uploads[1].initiated, None);
    }

    #[test]
    fn what_is_no_page_is_told() {
        assert!(read_page("<a><b></a>").is_err());
        assert!(read_page("<a>&nonsense;</a>").is_err());
        assert_eq!(read_page("").map(|page| page.uploads), Ok(Vec::new()));
    }
}
