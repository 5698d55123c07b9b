//! The end of an upload to S3, which makes an object only where there is none.
//!
//! The crate `object_store` completes uploads without a condition: of two that end at once the later one would
//! replace the object of the other. So its requests pass here, and those that complete an upload get the condition.
//! It is no part of the signature, as in that crate's own conditional requests.

use futures_util::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use reqwest::Method;
use reqwest::header::{HeaderValue, IF_NONE_MATCH};

/// Connects clients that complete uploads only where no object is.
#[derive(Debug)]
pub struct CreatingConnector;

impl HttpConnector for CreatingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Creating(ReqwestConnector::default().connect(options)?)))
    }
}

/// A client whose requests pass.
#[derive(Debug)]
struct Creating(HttpClient);

impl HttpService for Creating {
    fn call<'a, 'b>(
        &'a self,
        mut request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        if completes_upload(&request) {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        Box::pin(self.0.execute(request))
    }
}

fn completes_upload(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && query.split('&').any(|pair| pair.starts_with("uploadId="))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use leafpress::ErrorKind;
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path;
    use reqwest::StatusCode;
    use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE};
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::key::hex;
    use crate::store::home::Store as _;
    use crate::store::objects::Objects;
    use crate::store::pieces::PIECE_BYTES;

    const SIZE: usize = 2 * PIECE_BYTES as usize;

    /// The objects of S3. Another process completes an object just before the first upload is completed here.
    #[derive(Debug, Default, Clone)]
    struct Server {
        objects: Arc<Mutex<HashMap<String, Bytes>>>,
        has_rival: bool,
    }

    impl HttpConnector for Server {
        fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
            Ok(HttpClient::new(Creating(HttpClient::new(self.clone()))))
        }
    }

    impl HttpService for Server {
        fn call<'a, 'b>(
            &'a self,
            request: HttpRequest,
        ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
        where
            'a: 'b,
            Self: 'b,
        {
            let (status, body) = self.answer(&request);
            let mut answer = HttpResponse::new(body.clone().into());
            *answer.status_mut() = status;
            let headers = answer.headers_mut();
            headers.insert(ETAG, HeaderValue::from_static("\"tag\""));
            headers.insert(LAST_MODIFIED, "Tue, 01 Dec 2026 06:00:00 GMT".parse().unwrap());
            headers.insert(CONTENT_LENGTH, body.len().into());
            if let Some(range) = request.headers().get(RANGE) {
                let range = range.to_str().unwrap().replace('=', " ");
                headers.insert(CONTENT_RANGE, format!("{range}/{SIZE}").parse().unwrap());
            }
            Box::pin(async { Ok(answer) })
        }
    }

    impl Server {
        fn answer(&self, request: &HttpRequest) -> (StatusCode, Bytes) {
            let mut objects = self.objects.lock().unwrap();
            let key = request.uri().path().to_owned();
            let query = request.uri().query().unwrap_or_default();
            match (request.method().as_str(), objects.get(&key)) {
                ("POST", _) if query.starts_with("uploads") => {
                    let begun = "<InitiateMultipartUploadResult><UploadId>7</UploadId>\
                                 </InitiateMultipartUploadResult>";
                    (StatusCode::OK, Bytes::from_static(begun.as_bytes()))
                }
                ("POST", _) => {
                    if self.has_rival {
                        objects.insert(key.clone(), vec![1; SIZE].into());
                    }
                    if request.headers().contains_key(IF_NONE_MATCH) && objects.contains_key(&key) {
                        return (StatusCode::PRECONDITION_FAILED, Bytes::new());
                    }
                    objects.insert(key, vec![2; SIZE].into());
                    let done = "<CompleteMultipartUploadResult><ETag>tag</ETag>\
                                </CompleteMultipartUploadResult>";
                    (StatusCode::OK, Bytes::from_static(done.as_bytes()))
                }
                ("GET" | "HEAD", None) => (StatusCode::NOT_FOUND, Bytes::new()),
                ("HEAD", Some(object)) => (StatusCode::OK, object.clone()),
                ("GET", Some(object)) => {
                    // Each half has the same bytes.
                    (StatusCode::PARTIAL_CONTENT, object.slice(..PIECE_BYTES as usize))
                }
                _ => (StatusCode::OK, Bytes::new()),
            }
        }
    }

    fn keep(server: &Server, is_ahead: bool) -> leafpress::Result<()> {
        let store = AmazonS3Builder::new().with_bucket_name("b").with_skip_signature(true);
        let store = Arc::new(store.with_http_connector(server.clone()).build().unwrap());
        let objects = Objects::on(Arc::clone(&store) as _, Some(store), "s3://b", Path::default());
        let draft = objects.draft("part.db").unwrap();
        let content = vec![2; SIZE];
        fs::write(draft.path(), &content).unwrap();
        if is_ahead {
            objects.listener(&draft).unwrap().wrote(PIECE_BYTES, &content[PIECE_BYTES as usize..]);
        }
        let sha256 = || Ok(hex(&Sha256::digest(&content)));
        objects.keep(&draft, "part.db", &sha256, &|| false)
    }

    #[test]
    fn a_large_object_is_not_replaced_that_came_while_its_pieces_went_up() {
        for is_ahead in [false, true] {
            keep(&Server::default(), is_ahead).expect("nothing is there");
            let server = Server { has_rival: true, ..Server::default() };
            let error = keep(&server, is_ahead).expect_err("another object is there");
            assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{is_ahead} {error}");
            let objects = server.objects.lock().unwrap();
            assert!(objects.values().all(|object| object[0] == 1), "{is_ahead}: it is replaced");
        }
    }
}
