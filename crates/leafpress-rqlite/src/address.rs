//! The URL of a cluster: nodes, credentials, TLS.
//!
//! Must never: show a password, in a message or by `Debug`, or send anything through a proxy that the URL does not name.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafpress::vfs::locks::FileHandle;
use leafpress::{Error, Result, path_text};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

/// Environment variable of the password, for a URL that names a user alone.
const PASSWORD: &str = "RQLITE_PASSWORD";

/// The nodes of a cluster and how to talk to them, read from a URL such as
/// `rqlite://user:password@host:4001,other:4001`.
///
/// `rqlites://`, or `?ssl=true`, stands for TLS. A password that the URL lacks is taken from the
/// environment variable `RQLITE_PASSWORD`. A port that is left out is 4001. `?level=`, a level of reads,
/// is checked and not used. `?ca=FILE` names the certificate authority of the nodes, `cert=FILE&key=FILE`
/// the client's own certificate; the files are PEM, and are read as the URL is. Requests go straight to the
/// nodes, also where the environment names a proxy for programs of the web, or through that of
/// `?proxy=http://host:port`.
#[derive(Clone)]
pub struct Address {
    /// The base URL of each node, without a slash at its end.
    pub(crate) nodes: Vec<String>,
    /// The value of the header `Authorization`.
    pub(crate) authorization: Option<String>,
    /// Certificates, for nodes that speak HTTPS.
    tls: TlsConfig,
    proxy: Option<Proxy>,
}

impl Address {
    /// A client of HTTP for these nodes, which follows no redirect by itself. `request_max`: the
    /// longest time for a request with its answer; `None` if each request sets its own.
    pub(crate) fn agent(&self, connect_max: Duration, request_max: Option<Duration>) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(connect_max))
            .timeout_global(request_max)
            .tls_config(self.tls.clone())
            // Without this line it would be that of the environment.
            .proxy(self.proxy.clone());
        config.build().into()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let (is_tls, rest) = match (url.strip_prefix("rqlite://"), url.strip_prefix("rqlites://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong("it begins neither with rqlite:// nor with rqlites://")),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::read(query)?;
        let is_tls = query.is_tls.unwrap_or(is_tls);
        let tls = query.certificates(is_tls)?;
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, place),
        };
        let scheme = if is_tls { "https" } else { "http" };
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts).split(',');
        let nodes = hosts
            .enumerate()
            .map(|(at, host)| node(scheme, host).ok_or_else(|| wrong_host(at + 1)))
            .collect::<Result<_>>()?;
        Ok(Self {
            nodes,
            authorization: user.map(authorization).transpose()?,
            tls,
            proxy: query.proxy,
        })
    }
}

fn wrong(reason: impl fmt::Display) -> Error {
    Error::misuse(format!("the URL of the cluster is wrong: {reason}"))
        .to_do("write it as rqlite://user@host:4001,host:4001")
}

/// The part of the URL behind the question mark.
#[derive(Default)]
struct Query {
    is_tls: Option<bool>,
    /// The certificate authority of the nodes.
    authority: Option<String>,
    /// The client's own certificate, and its key.
    certificate: Option<String>,
    key: Option<String>,
    proxy: Option<Proxy>,
}

impl Query {
    fn read(query: &str) -> Result<Self> {
        let mut read = Self::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("ssl", "true") => read.is_tls = Some(true),
                ("ssl", "false") => read.is_tls = Some(false),
                ("ca", file) if !file.is_empty() => read.authority = Some(decoded(file)?),
                ("cert", file) if !file.is_empty() => read.certificate = Some(decoded(file)?),
                ("key", file) if !file.is_empty() => read.key = Some(decoded(file)?),
                ("proxy", url) => read.proxy = Some(proxy(&decoded(url)?)?),
                // For readers of the same URL: the writer reads only at the strongest level.
                ("level", "none" | "weak" | "linearizable" | "strong") => {}
                // It is not shown: it may be a part of a password with a question mark.
                _ => {
                    return Err(wrong(
                        "what follows the question mark is none of ssl=, ca=, cert=, key=, proxy= and level= with \
                         a value that is known; a question mark in a password is written as %3F",
                    ));
                }
            }
        }
        Ok(read)
    }

    /// Reads the files of certificates.
    fn certificates(&self, is_tls: bool) -> Result<TlsConfig> {
        let names_files =
            [&self.authority, &self.certificate, &self.key].iter().any(|it| it.is_some());
        if names_files && !is_tls {
            return Err(wrong("certificates are for rqlites://, or ssl=true"));
        }
        let mut tls = TlsConfig::builder();
        if let Some(file) = &self.authority {
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates_in(Path::new(file))?));
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates_in(Path::new(certificate))?;
                let own = ClientCert::new_with_certs(&chain, key_in(Path::new(key))?);
                tls = tls.client_cert(Some(own));
            }
            (None, None) => {}
            _ => return Err(wrong("cert= and key= belong together")),
        }
        Ok(tls.build())
    }
}

fn proxy(url: &str) -> Result<Proxy> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    let proxy = is_http.then(|| Proxy::new(url).ok()).flatten();
    proxy.ok_or_else(|| wrong("proxy= names no proxy, such as http://host:port"))
}

fn read_pem(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::io("read", path, source);
    let mut pem = Vec::new();
    FileHandle::open(path).map_err(failed)?.read_to_end(&mut pem).map_err(failed)?;
    Ok(pem)
}

fn certificates_in(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let wrong = |reason: String| Error::input(path_text(path), reason);
    let pem = read_pem(path)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(it) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(it);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate in PEM form".to_owned()));
    }
    Ok(certificates)
}

fn key_in(path: &Path) -> Result<PrivateKey<'static>> {
    PrivateKey::from_pem(&read_pem(path)?).map_err(|_| {
        Error::input(path_text(path), "it holds no private key in PEM form".to_owned())
    })
}

/// The base URL of a node; `None` if that is no host with a port.
fn node(scheme: &str, host: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, "4001"),
    };
    let is_name = !name.is_empty() && (!name.contains(':') || name.starts_with('['));
    let is_port = matches!(port.parse::<u16>(), Ok(1..));
    (is_name && is_port).then(|| format!("{scheme}://{name}:{port}"))
}

/// The host is not shown: without an `@` it may be a user and a password.
fn wrong_host(place: usize) -> Error {
    wrong(format!(
        "host {place} of its list is not a host with a port; user and password stand before an @, and a question \
         mark in them is written as %3F"
    ))
}

fn authorization(user: &str) -> Result<String> {
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (decoded(user)?, decoded(password)?),
        None => (decoded(user)?, std::env::var(PASSWORD).unwrap_or_default()),
    };
    Ok(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

/// A text in which `%40` stands for `@`, and so on.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or_else(|| wrong("a percent sign in it needs two hex digits"))?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong("user or password is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address> {
        url.parse()
    }

    #[test]
    fn nodes_ports_and_tls_are_read() {
        let nodes = |url| read(url).unwrap().nodes;
        assert_eq!(nodes("rqlite://a:1,b/"), ["http://a:1", "http://b:4001"]);
        assert_eq!(nodes("rqlites://a?level=weak"), ["https://a:4001"]);
        assert_eq!(nodes("rqlite://[::1]:5?ssl=true"), ["https://[::1]:5"]);
    }

    #[test]
    fn credentials_are_encoded_and_never_shown() {
        let address = read("rqlite://ann:p%40ss@a").unwrap();
        assert_eq!(address.authorization.as_deref(), Some("Basic YW5uOnBAc3M="));
        assert!(!format!("{address:?}").contains("YW5u"));
        let address = read("rqlite://a?proxy=http://ann:p%2540ss@b:8080").unwrap();
        assert_eq!(address.proxy.as_ref().and_then(Proxy::password), Some("p@ss"));
        assert!(!format!("{address:?}").contains("ss@"));
    }

    #[test]
    fn messages_show_no_part_of_a_password() {
        for url in [
            "rqlite://ann:sw0rdfish",
            "rqlite://ann:sw0rdfish,db2:4001",
            "rqlite://db1:4001,ann:sw0rdfish",
            "rqlite://ann:pa?sw0rdfish@db1:4001",
            "rqlite://ann:pa?level=sw0rdfish@db1:4001",
            "rqlite://ann:pa?x&sw0rdfish=1@db1:4001",
            "rqlite://ann:%4sw0rdfish@db1",
            "rqlite:/ann:sw0rdfish@db1",
        ] {
            let error = read(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("sw0rdfish"), "{error}");
        }
    }

    #[test]
    fn wrong_urls_are_refused() {
        for url in [
            "http://a",
            "rqlite://",
            "rqlite://a,,b",
            "rqlite://a:0",
            "rqlite://a:x",
            "rqlite://a?level=most",
            "rqlite://%4@a",
            "rqlite://a/b",
            "rqlite://a?ca=/nowhere",
            "rqlites://a?ca=/nowhere",
            "rqlites://a?cert=/nowhere",
            "rqlite://::1",
            "rqlite://a?proxy=",
            "rqlite://a?proxy=socks5://b:1",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
