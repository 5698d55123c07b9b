//! A server of rqlite's protocol over real SQLite, which injects faults.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Value, json};

/// Two nodes, of which the second sends writes to the first, at times.
pub struct Server {
    pub url: String,
    pub database: Arc<Mutex<Connection>>,
    pub faults_in_100: Arc<AtomicU8>,
    /// Number of the next requests that are applied and never answered, on connections that stay.
    pub silent: Arc<AtomicU8>,
    /// Faults of the next requests that hold these texts.
    planned: Planned,
    /// The clock of both nodes, which is far from that of the clients.
    pub clock_ms: Arc<AtomicI64>,
    /// Bytes of all requests so far.
    pub bytes: Arc<AtomicUsize>,
    /// Bytes of the largest request so far.
    pub bytes_max: Arc<AtomicUsize>,
    /// True once a statement that writes has asked for the time: nodes would differ then.
    pub has_written_time: Arc<AtomicBool>,
}

thread_local! {
    /// True while a statement that writes is carried out by this thread.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

type Planned = Arc<Mutex<Vec<(&'static str, Fault)>>>;

/// A fault of one request.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    LostBefore,
    LostAfter,
    /// It is applied that much later, after the connection was lost.
    Late(Duration),
    NoLeader,
    /// It is applied, and this is the answer: that of an earlier request, which it overtook.
    AnsweredWith(&'static str),
    /// It is applied and answered; in between another program does this.
    Then(&'static str),
    /// A node hands it on twice, and another program does this in between. The second answer comes back.
    Twice(&'static str),
    /// It is applied and never answered.
    Silent,
    /// It is neither applied nor answered.
    Held,
}

const LEADERSHIP_LOST: &str = r#"{"error":"leadership lost while committing log"}"#;

/// Longer than a caller waits.
const SILENCE: Duration = Duration::from_secs(60);

impl Server {
    pub fn start(faults_in_100: u8, seed: u64) -> Self {
        let faults_in_100 = Arc::new(AtomicU8::new(faults_in_100));
        let connection = Connection::open_in_memory().unwrap();
        let silent = Arc::new(AtomicU8::new(0));
        let planned = Planned::default();
        let clock_ms = Arc::new(AtomicI64::new(1_000_000_000_000));
        let bytes = Arc::new(AtomicUsize::new(0));
        let bytes_max = Arc::new(AtomicUsize::new(0));
        let has_written_time = Arc::new(AtomicBool::new(false));
        set_clock(&connection, &clock_ms, &has_written_time);
        let database = Arc::new(Mutex::new(connection));
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        for (at, listener) in listeners.into_iter().enumerate() {
            let (database, random) = (Arc::clone(&database), Arc::clone(&random));
            let (faults, silent) = (Arc::clone(&faults_in_100), Arc::clone(&silent));
            let (planned, bytes) = (Arc::clone(&planned), Arc::clone(&bytes));
            let bytes_max = Arc::clone(&bytes_max);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let (fault, redirects) = {
                        let mut random = random.lock().unwrap();
                        let all = [
                            Fault::LostBefore,
                            Fault::LostAfter,
                            Fault::Late(Duration::from_millis(random.u64(1..40))),
                            Fault::NoLeader,
                            Fault::AnsweredWith(LEADERSHIP_LOST),
                        ];
                        let one_less = |left: u8| left.checked_sub(1);
                        let is_silent = silent
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                            .is_ok();
                        let fails = random.u8(..100) < faults.load(Ordering::Relaxed);
                        let fault = match (is_silent, fails) {
                            (true, _) => Fault::Silent,
                            (false, true) => all[random.usize(..5)],
                            (false, false) => Fault::None,
                        };
                        (fault, random.bool())
                    };
                    let leader = (at == 1 && redirects).then_some(ports[0]);
                    let (database, planned) = (Arc::clone(&database), Arc::clone(&planned));
                    let (bytes, bytes_max) = (Arc::clone(&bytes), Arc::clone(&bytes_max));
                    std::thread::spawn(move || {
                        let stream = stream.unwrap();
                        let Some((path, body)) = request(&stream) else { return };
                        bytes.fetch_add(body.len(), Ordering::Relaxed);
                        bytes_max.fetch_max(body.len(), Ordering::Relaxed);
                        serve(stream, &path, &body, &database, fault, leader, &planned);
                    });
                }
            });
        }
        let url = format!("rqlite://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
        Self {
            url,
            database,
            faults_in_100,
            silent,
            planned,
            clock_ms,
            bytes,
            bytes_max,
            has_written_time,
        }
    }

    /// Plans a fault of the next request that holds this text.
    pub fn plan(&self, text: &'static str, fault: Fault) {
        self.planned.lock().unwrap().push((text, fault));
    }

    /// Returns true if all faults that were planned have come about.
    pub fn is_past_plans(&self) -> bool {
        self.planned.lock().unwrap().is_empty()
    }
}

/// The function of time that the queue asks for is that of the clock.
fn set_clock(connection: &Connection, clock_ms: &Arc<AtomicI64>, written: &Arc<AtomicBool>) {
    let (clock_ms, written) = (Arc::clone(clock_ms), Arc::clone(written));
    let now = move |_: &rusqlite::functions::Context<'_>| {
        if WRITES.get() {
            written.store(true, Ordering::Relaxed);
        }
        Ok(clock_ms.load(Ordering::Relaxed) as f64 / 1_000.0)
    };
    let flags = FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("unixepoch", -1, flags, now).unwrap();
}

fn serve(
    mut stream: TcpStream,
    path: &str,
    body: &str,
    database: &Mutex<Connection>,
    fault: Fault,
    leader: Option<u16>,
    planned: &Planned,
) {
    let mut answer = |status: &str, header: &str, body: &str| {
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
    };
    if let Some(port) = leader {
        return answer("301 Moved", &format!("Location: http://127.0.0.1:{port}{path}\r\n"), "");
    }
    if path.starts_with("/nodes") {
        return answer("200 OK", "", r#"{"nodes":[{"leader":true},{}]}"#);
    }
    let mut plans = planned.lock().unwrap();
    let plan = plans.iter().position(|(text, _)| body.contains(text));
    let fault = plan.map_or(fault, |at| plans.remove(at).1);
    drop(plans);
    let apply = || {
        let database = database.lock().unwrap();
        let statements: Vec<Value> = serde_json::from_str(body).unwrap();
        if path.starts_with("/db/query") {
            query(&database, &statements)
        } else if path.starts_with("/db/request") {
            mixed(&database, &statements)
        } else {
            execute(&database, &statements)
        }
    };
    match fault {
        Fault::None => answer("200 OK", "", &apply().to_string()),
        Fault::LostBefore => {}
        Fault::LostAfter => drop(apply()),
        Fault::Late(time) => {
            drop(stream);
            std::thread::sleep(time);
            apply();
        }
        Fault::Silent => {
            apply();
            std::thread::sleep(SILENCE);
        }
        Fault::Held => std::thread::sleep(SILENCE),
        Fault::NoLeader => answer("503 Unavailable", "", "leader not found"),
        Fault::AnsweredWith(body) => {
            apply();
            answer("200 OK", "", body);
        }
        Fault::Then(sql) | Fault::Twice(sql) => {
            let first = apply();
            database.lock().unwrap().execute_batch(sql).unwrap();
            let last = if fault == Fault::Twice(sql) { apply() } else { first };
            answer("200 OK", "", &last.to_string());
        }
    }
}

fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

/// The SQL of a statement, and its values.
fn parts(statement: &Value) -> (String, Vec<Sql>) {
    let Value::Array(parts) = statement else {
        return (statement.as_str().unwrap().to_owned(), Vec::new());
    };
    let value = |value: &Value| match value {
        Value::Null => Sql::Null,
        Value::String(text) => Sql::Text(text.clone()),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Sql::Real(number.as_f64().unwrap()), Sql::Integer)
        }
        other => panic!("{other}"),
    };
    (parts[0].as_str().unwrap().to_owned(), parts[1..].iter().map(value).collect())
}

fn execute(database: &Connection, statements: &[Value]) -> Value {
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut results = Vec::new();
    for statement in statements {
        let (sql, values) = parts(statement);
        match database.execute(&sql, params_from_iter(values)) {
            Ok(_) => results.push(json!({"rows_affected": database.changes(), "last_insert_id": database.last_insert_rowid()})),
            Err(error) => {
                let _ = database.execute_batch("ROLLBACK");
                results.push(json!({"error": error.to_string()}));
                return json!({"results": results});
            }
        }
    }
    if let Err(error) = database.execute_batch("COMMIT") {
        database.execute_batch("ROLLBACK").unwrap();
        return json!({"results": [], "error": error.to_string()});
    }
    json!({"results": results})
}

fn query(database: &Connection, statements: &[Value]) -> Value {
    let results: Vec<Value> = statements.iter().map(|it| rows(database, it)).collect();
    json!({ "results": results })
}

/// The rows of a query; its error alone if it has one.
fn rows(database: &Connection, statement: &Value) -> Value {
    let (sql, values) = parts(statement);
    let read = || -> rusqlite::Result<Value> {
        let mut statement = database.prepare(&sql)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let row = |row: &rusqlite::Row<'_>| {
            let value = |at| Ok(as_json(row.get::<_, Sql>(at)?));
            (0..columns.len()).map(value).collect::<rusqlite::Result<Vec<Value>>>()
        };
        let rows = statement.query_map(params_from_iter(values), row)?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(json!({"columns": columns, "values": rows}))
    };
    read().unwrap_or_else(|error| json!({"error": error.to_string()}))
}

fn as_json(value: Sql) -> Value {
    match value {
        Sql::Null => Value::Null,
        Sql::Integer(number) => json!(number),
        Sql::Real(number) => json!(number),
        Sql::Text(text) => json!(text),
        Sql::Blob(bytes) => json!(String::from_utf8_lossy(&bytes)),
    }
}

/// A transaction of statements that change and of queries. Neither a query that fails nor a statement that cannot be
/// prepared ends it, as with rqlite.
fn mixed(database: &Connection, statements: &[Value]) -> Value {
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut results = Vec::new();
    for statement in statements {
        let (sql, values) = parts(statement);
        match database.prepare(&sql).map(|it| it.readonly()) {
            Ok(false) => {}
            Ok(true) => {
                results.push(rows(database, statement));
                continue;
            }
            Err(error) => {
                results.push(json!({"error": error.to_string()}));
                continue;
            }
        }
        WRITES.set(true);
        let done = database.execute(&sql, params_from_iter(values));
        WRITES.set(false);
        if let Err(error) = done {
            let _ = database.execute_batch("ROLLBACK");
            results.push(json!({"error": error.to_string()}));
            return json!({"results": results});
        }
        results.push(json!({"rows_affected": database.changes()}));
    }
    database.execute_batch("COMMIT").unwrap();
    json!({"results": results})
}
