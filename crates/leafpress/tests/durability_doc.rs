//! docs/durability.md says what the code says.

use std::path::Path;

use leafpress::Profile;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/durability.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_table_of_profiles_is_that_of_the_code() {
    let table = Profile::table_as_markdown();
    assert!(document().contains(&table), "docs/durability.md should have this table:\n{table}");
}

/// The rows of the first table behind a heading, split into their cells.
fn table_behind(heading: &str) -> Vec<Vec<String>> {
    let document = document();
    let section = document.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = rows.take_while(|line| line.starts_with("| "));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches([' ', '|']).to_owned()).collect())
        .collect()
}

#[test]
fn the_limits_of_the_checkpointer_are_those_of_the_code() {
    let limits = leafpress::checkpoint::CheckpointLimits::default();
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let time = |time: std::time::Duration| match time.as_millis() {
        ms if ms >= 1000 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    };
    let expected = [
        ("slice_frames", format!("{},000 pages", limits.slice_frames / 1000)),
        ("wal_bytes_max", mib(limits.wal_bytes_max)),
        ("catch_up_bytes", mib(limits.catch_up_bytes)),
        ("pause_bytes", mib(limits.pause_bytes)),
        ("pause_before_pass", time(limits.pause_before_pass)),
        ("idle_before_truncate", time(limits.idle_before_truncate)),
        ("catch_up_wait_max", time(limits.catch_up_wait_max)),
        ("gate_wait_max", time(limits.gate_wait_max)),
        ("stuck_reader_after", time(limits.stuck_reader_after)),
        ("stop_wait_max", time(limits.stop_wait_max)),
    ];
    let rows = table_behind("## The checkpointer and its limits");
    let documented: Vec<_> =
        rows.iter().map(|row| (row[0].trim_matches('`'), row[1].clone())).collect();
    assert_eq!(documented, expected);
    let debugged = format!("{limits:?}");
    let fields = debugged.matches(": ").count();
    assert_eq!(fields, expected.len(), "a limit without a row: {debugged}");
}
