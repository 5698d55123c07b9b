//! A small web server for one folder: ranges, tags, counts, and failures on demand.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// Faults of the next requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Fine,
    /// So many requests get status 503, then the server is fine.
    Failing(u32),
    /// So many answers end in the middle.
    Cutting(u32),
    /// No answer comes: the connection ends once the mood changes.
    Silent,
    /// Ranges are not known.
    Whole,
}

#[derive(Debug)]
pub struct State {
    pub mood: Mood,
    pub requests: u64,
    /// Ranges that were sent whole.
    pub sent: Vec<Range<u64>>,
}

#[derive(Clone)]
pub struct Server {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    address: String,
}

impl Server {
    pub fn start(folder: impl Into<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = State { mood: Mood::Fine, requests: 0, sent: Vec::new() };
        let server = Self { folder: folder.into(), state: Arc::new(Mutex::new(state)), address };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the state")
    }

    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// Requests since the last call, and their bytes.
    pub fn take(&self) -> (u64, u64) {
        let mut state = self.state();
        let bytes = state.sent.drain(..).map(|range| range.end - range.start).sum();
        (std::mem::take(&mut state.requests), bytes)
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some((path, headers)) = request(&mut reader) {
            let mood = {
                let mut state = self.state();
                state.requests += 1;
                let mood = state.mood;
                state.mood = match mood {
                    Mood::Failing(1) | Mood::Cutting(1) => Mood::Fine,
                    Mood::Failing(left) => Mood::Failing(left - 1),
                    Mood::Cutting(left) => Mood::Cutting(left - 1),
                    mood => mood,
                };
                mood
            };
            if mood == Mood::Silent {
                while self.state().mood == Mood::Silent {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return;
            }
            if self.answer(stream, &path, &headers, mood).is_none() {
                return;
            }
        }
    }

    fn answer(
        &self,
        mut stream: &TcpStream,
        path: &str,
        headers: &[(String, String)],
        mood: Mood,
    ) -> Option<()> {
        let header = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        let empty = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        if let Mood::Failing(_) = mood {
            return stream.write_all(empty("503 Service Unavailable").as_bytes()).ok();
        }
        let path = self.folder.join(path);
        let Some((bytes, tag)) = fs::metadata(&path).ok().map(|it| (it.len(), tag(&it))) else {
            return stream.write_all(empty("404 Not Found").as_bytes()).ok();
        };
        if header("if-match").is_some_and(|wanted| wanted != tag) {
            return stream.write_all(empty("412 Precondition Failed").as_bytes()).ok();
        }
        let range = header("range").filter(|_| mood != Mood::Whole).and_then(|range| {
            let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some(start.parse::<u64>().ok()?..(end.parse::<u64>().ok()? + 1).min(bytes))
        });
        if range.as_ref().is_some_and(|range| range.start >= bytes) {
            return stream.write_all(empty("416 Range Not Satisfiable").as_bytes()).ok();
        }
        let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
        let wanted = range.clone().unwrap_or(0..bytes);
        let mut body = vec![0; (wanted.end - wanted.start) as usize];
        let mut file = fs::File::open(&path).ok()?;
        file.seek(SeekFrom::Start(wanted.start)).and_then(|_| file.read_exact(&mut body)).ok()?;
        let mut head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: {tag}\r\n", body.len());
        if let Some(range) = &range {
            let (start, last, size) = (range.start, range.end - 1, bytes);
            head = format!("{head}Content-Range: bytes {start}-{last}/{size}\r\n");
        }
        head.push_str("Last-Modified: Wed, 25 Nov 2026 08:00:00 GMT\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        if let Mood::Cutting(_) = mood {
            let _ = stream.write_all(&body[..body.len() / 2]);
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return None;
        }
        self.state().sent.push(wanted);
        stream.write_all(&body).ok()
    }
}

/// A tag that is another one after each change.
fn tag(file: &fs::Metadata) -> String {
    let changed = file.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    format!("\"{}-{}\"", file.len(), changed.unwrap_or_default().as_nanos())
}

fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.trim_start_matches('/').replace("%20", " ");
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Some((path, headers))
}
