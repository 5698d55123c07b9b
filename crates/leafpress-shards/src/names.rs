//! Names and paths of runs, attempts and their parts, from the folder of the shards.

/// Folder of the runs.
pub const RUNS: &str = "runs";

/// Path of the folder of a run's parts, from the folder of the shards.
pub fn parts_of(run: &str) -> String {
    format!("{RUNS}/{run}/parts")
}

/// The last name of a path.
pub fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns true if a run or an attempt may be called so.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=100).contains(&name.len()) && name.bytes().all(is_plain)
}
