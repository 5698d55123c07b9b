//! Requests and bytes of lookups over HTTP, in a part with the layout for it and in one without.
//!
//! ```text
//! cargo run --release --features object-store --example remote_requests -- FOLDER INPUT KEY COLUMN
//! ```
//!
//! INPUT is loaded into two parts in FOLDER, with the primary key KEY (whole numbers) and an index on
//! COLUMN. A server on this machine counts.

use std::time::{Duration, Instant};

use leafpress::load::Layout;
use leafpress_shards::remote::{RemoteDatabase, RemoteOptions};
use leafpress_shards::{PartBuilder, Shards};

#[path = "../tests/remote/server.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod server;

use server::{Mood, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, input, key, column] = &arguments[..] else {
        return Err("FOLDER INPUT KEY COLUMN".into());
    };
    let server = Server::start(folder.as_str());
    server.set(Mood::Fine);
    let shards = Shards::at(folder)?;
    let run = shards.begin()?.run;
    for (name, layout) in [("remote", Layout::Remote), ("local", Layout::Local)] {
        let started = Instant::now();
        let (record, _) = PartBuilder::new(&shards, &run, 0).attempt(name).build(|loader| {
            loader.table("t").primary_key(key).index(column).layout(layout).load_file(input)
        })?;
        let interior: u64 = record.interior_pages.iter().flatten().map(|run| run.pages).sum();
        println!(
            "{name}: {} bytes, pages of {}, {interior} interior in the first {} runs, made in {:.1} s",
            record.bytes,
            record.page_size,
            record.interior_pages.iter().flatten().count(),
            started.elapsed().as_secs_f64()
        );
        let options = RemoteOptions::default().timeout(Duration::from_secs(30));
        for known in [Some(&record), None] {
            let remote = RemoteDatabase::open_url(&server.url(&record.path), known, &options)?;
            let db = remote.connect()?;
            let show = |what: &str| {
                let (requests, bytes) = server.take();
                println!("  {what}: {requests} requests, {bytes} bytes");
            };
            db.prepare("SELECT * FROM t")?;
            show(if known.is_some() { "open, with the record" } else { "open, without" });
            let last: i64 =
                db.query_row(&format!("SELECT max({key}) FROM t"), [], |row| row.get(0))?;
            show("largest key");
            let sql = format!("SELECT {column} FROM t WHERE {key} = ?1");
            let value: String = db.query_row(&sql, [last / 3], |row| row.get(0))?;
            show("row by key");
            let sql = format!("SELECT * FROM t WHERE {column} = ?1 LIMIT 1");
            let _: i64 = db.query_row(&sql, [&value], |row| row.get(0))?;
            show("row by index");
            let rows: i64 =
                db.query_row("SELECT count(*) FROM t NOT INDEXED", [], |row| row.get(0))?;
            show(&format!("scan of {rows} rows"));
        }
    }
    Ok(())
}
