//! Costs of a large manifest: `manifest_costs FOLDER PARTS` publishes one, opens it and routes keys.
//!
//! The parts are files without content, as only the manifest is measured.

use std::time::Instant;

use leafpress::load::Value;
use leafpress_shards::{
    HASH_FUNCTION, HASH_VERSION, Key, Manifest, PageRun, PartRecord, Routing, Schema, Shards,
};

const LOOKUPS: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder that does not exist")?;
    let parts: usize = arguments.next().as_deref().unwrap_or("100000").parse()?;
    for kind in ["hash", "range"] {
        let shards = Shards::at(format!("{folder}/{kind}"))?;
        let publication = shards.begin()?;
        let routing = match kind {
            "hash" => Routing::Hash {
                columns: vec!["id".to_owned()],
                function: HASH_FUNCTION.to_owned(),
                seed: 0,
                version: HASH_VERSION,
            },
            _ => Routing::Range {
                column: "id".to_owned(),
                bounds: (1..parts as i64).map(|part| Key::Integer(part * 1000)).collect(),
            },
        };
        let records: Vec<_> = (0..parts).map(|part| record(&publication.run, part)).collect();
        make_files(&format!("{folder}/{kind}"), &publication.run, &records)?;
        let schema = Schema { table: "t".to_owned(), sql: vec!["CREATE TABLE t(id)".to_owned()] };
        let manifest = Manifest::new(publication.run.clone(), schema, routing, records);
        let began = Instant::now();
        shards.publish(&publication, manifest)?;
        let published = began.elapsed();
        let began = Instant::now();
        let manifest = Shards::open(shards.root())?.manifest()?;
        let opened = began.elapsed();
        let began = Instant::now();
        let mut sum = 0;
        for id in 0..LOOKUPS {
            sum += manifest.routing.part_of(&[Value::Integer(id * 97)], parts).unwrap_or(0);
        }
        let routed = began.elapsed().as_secs_f64() / LOOKUPS as f64 * 1e6;
        println!(
            "{kind}: {parts} parts, published in {published:.2?}, opened (twice) in {opened:.2?}, routed in \
             {routed:.3} µs ({sum})"
        );
    }
    Ok(())
}

/// Makes a sparse file for each part, as a publication looks whether they are there.
fn make_files(root: &str, run: &str, records: &[PartRecord]) -> std::io::Result<()> {
    std::fs::create_dir_all(format!("{root}/runs/{run}/parts"))?;
    for record in records {
        std::fs::File::create(format!("{root}/{}", record.path))?.set_len(record.bytes)?;
    }
    Ok(())
}

fn record(run: &str, part: usize) -> PartRecord {
    PartRecord {
        part,
        path: format!("runs/{run}/parts/{part:05}-0.db"),
        bytes: 1 << 30,
        sha256: format!("{part:064x}"),
        rows: 1000,
        smallest: Key::Integer(part as i64 * 1000),
        largest: Key::Integer(part as i64 * 1000 + 999),
        page_size: 4096,
        pages: 1 << 18,
        interior_pages: Some(vec![PageRun { first: 2, pages: 800 }]),
        attempt: "0".to_owned(),
    }
}
