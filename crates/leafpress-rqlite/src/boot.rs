//! A database file as the content of a new cluster, by `/boot`.
//!
//! rqlite takes the file as it is, so it is there at the speed of a copy. It replaces what the node has,
//! and the node must be alone: others join after it.
//!
//! Must never: send a file to a node that has tables, or one that is not whole.

use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leafpress::rusqlite::{self, Connection, OpenFlags};
use leafpress::verify::{VerifyOptions, verify};
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::paths::companion_of;
use leafpress::{Error, Result, path_text, quote_identifier};
use ureq::SendBody;

use crate::address::Address;
use crate::node::{Node, REQUEST_MAX};

/// A file has more time, by its size.
const BYTES_PER_SECOND_MIN: u64 = 2_000_000;
/// The longest time until the node has opened the new database.
const READY_MAX: Duration = Duration::from_secs(60);
const READY_PAUSE: Duration = Duration::from_millis(100);

/// Size of the header of a database, and the places of its write and read versions: 1 for a
/// rollback journal, 2 for a write-ahead log.
const HEADER_BYTES: usize = 100;
const VERSIONS: std::ops::Range<usize> = 18..20;
const MAGIC: &[u8] = b"SQLite format 3\0";

pub const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";

/// A database that a node has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Booted {
    /// The URL of the node, without credentials.
    pub node: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Tables, and the number of rows of each, as the node counts them.
    pub tables: Vec<(String, u64)>,
    /// Time from the call to the end of the counts.
    pub elapsed: Duration,
}

/// Makes the file `database` the content of a new cluster: of one node, which has no tables. Other
/// nodes join afterwards, and get it from there.
///
/// The file is verified before (`quick_check`), and the rows of each table are counted on the node
/// after. It must have a rollback journal and no log beside it, as a file that was loaded has.
///
/// # Errors
/// [`Misuse`](leafpress::ErrorKind::Misuse) if the URL names several nodes;
/// [`Input`](leafpress::ErrorKind::Input) if the file is not one whole database: then nothing was sent.
/// [`Destination`](leafpress::ErrorKind::Destination) if the node is not alone, does not lead, has
/// tables, does not answer or does not take the file: the error says what the node has then.
pub fn boot(address: &Address, database: &Path) -> Result<Booted> {
    let began = Instant::now();
    let node = Lone::new(address)?;
    let bytes = check_file(database)?;
    let expected = counts_of(database)?;
    node.check()?;
    node.send(database, bytes)?;
    let tables = node.counts(&expected)?;
    if tables != expected {
        return Err(Error::destination(
            &node.0.url,
            format!("it counts {tables:?} rows, not {expected:?}"),
        )
        .on_disk("the node has a database, and it is not the one that was sent"));
    }
    Ok(Booted { node: node.0.url, bytes, tables, elapsed: began.elapsed() })
}

/// Refuses a file that rqlite could not open; its size.
fn check_file(database: &Path) -> Result<u64> {
    let failed = |source| Error::io("read", database, source);
    let refused = |reason: &str| Error::input(path_text(database), reason.to_owned());
    let mut file = FileHandle::open(database).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut header = [0; HEADER_BYTES];
    if bytes < HEADER_BYTES as u64 {
        return Err(refused("it is no database"));
    }
    file.read_exact(&mut header).map_err(failed)?;
    if !header.starts_with(MAGIC) {
        return Err(refused("it is no database"));
    }
    if header[VERSIONS] != [1, 1] {
        return Err(refused("it is in WAL mode").to_do("set PRAGMA journal_mode = DELETE"));
    }
    for ending in ["-journal", "-wal"] {
        if std::fs::metadata(companion_of(database, ending)).is_ok_and(|about| about.len() > 0) {
            return Err(refused(&format!(
                "it has a file {ending} beside it, and may not be whole"
            ))
            .to_do("open it once with sqlite3, which recovers it"));
        }
    }
    let report = verify(database, &VerifyOptions::default().quick(true))?;
    match report.problems.first() {
        Some(problem) => Err(refused(&format!("it is damaged: {problem}"))),
        None => Ok(bytes),
    }
}

/// The tables of the file, and the number of rows of each.
fn counts_of(database: &Path) -> Result<Vec<(String, u64)>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that opens a file")]
    let connection = Connection::open_with_flags(database, flags)?;
    let mut statement = connection.prepare(TABLES)?;
    let names = statement.query_map([], |row| row.get(0))?;
    let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
    let count = |name: String| {
        let rows = connection.query_row(&count_query(&name), [], |row| row.get::<_, i64>(0))?;
        Ok((name, rows as u64))
    };
    names.into_iter().map(count).collect()
}

fn count_query(table: &str) -> String {
    format!("SELECT count(*) FROM {}", quote_identifier(table))
}

/// The one node of a new cluster.
struct Lone<'a>(Node<'a>);

impl<'a> Lone<'a> {
    fn new(address: &'a Address) -> Result<Self> {
        match address.nodes.as_slice() {
            [url] => Ok(Self(Node::new(address, url))),
            nodes => Err(Error::misuse(format!(
                "the URL names {} nodes, and only one alone takes a file",
                nodes.len()
            ))
            .to_do("name the first node, and let the others join after the load")),
        }
    }

    /// Refuses a node that has company, or tables.
    fn check(&self) -> Result<()> {
        let refused = |reason: String| {
            Error::destination(&self.0.url, reason).on_disk("nothing was sent to the node")
        };
        let nodes = self.0.nodes()?;
        let [own] = nodes.as_slice() else {
            return Err(refused(format!("it is one of {} nodes of a cluster", nodes.len()))
                .to_do("load into the first node of a new cluster; the others join after it"));
        };
        if !own.leads {
            return Err(refused("it does not lead yet".to_owned()).to_do("try again"));
        }
        let tables = self.0.query(TABLES)?;
        let names: Vec<_> = tables.iter().filter_map(|row| row.get(0)?.as_str()).collect();
        if !names.is_empty() {
            return Err(refused(format!(
                "it has tables, which the file would replace: {}",
                names.join(", ")
            ))
            .to_do("load into a node without tables"));
        }
        Ok(())
    }

    fn send(&self, database: &Path, bytes: u64) -> Result<()> {
        let file =
            FileHandle::open(database).map_err(|source| Error::io("read", database, source))?;
        let time = REQUEST_MAX + READY_MAX + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
        let request = self.0.agent(time).post(format!("{}/boot", self.0.url));
        let request = self.0.signed(request).header("Content-Length", bytes.to_string());
        let mut file = file.take(bytes);
        let sent = request.send(SendBody::from_reader(&mut file));
        let unknown = "the node has no table, all of them, or a database that it cannot open: look at its log";
        let mut answer = sent.map_err(|error| self.0.failed(&error).on_disk(unknown))?;
        if answer.status() == 200 {
            return Ok(());
        }
        let says = answer.body_mut().read_to_string().unwrap_or_default();
        Err(self.0.other_answer(answer.status().as_u16(), &says).on_disk(unknown))
    }

    /// The number of rows of these tables, once the node has opened its database.
    fn counts(&self, tables: &[(String, u64)]) -> Result<Vec<(String, u64)>> {
        let end = Instant::now() + READY_MAX;
        let names = loop {
            match self.0.query(TABLES) {
                Ok(rows) if !rows.is_empty() || tables.is_empty() => break rows,
                Err(error) if Instant::now() > end => return Err(error),
                _ if Instant::now() > end => break Vec::new(),
                _ => thread::sleep(READY_PAUSE),
            }
        };
        let names = names.iter().filter_map(|row| Some(row.get(0)?.as_str()?.to_owned()));
        let count = |name: String| {
            let rows = self.0.query(&count_query(&name))?;
            let count = rows.first().and_then(|row| row.get(0)?.as_u64());
            Ok((name, count.unwrap_or(0)))
        };
        names.map(count).collect()
    }
}
