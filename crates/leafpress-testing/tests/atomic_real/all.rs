//! The list of tests, and what the executable does when it is started as another process.

mod calls;
mod locks;
mod mount;
mod pages;
mod writers;

use std::path::Path;
use std::process::{Command, Output};

use mount::XfsMount;

const ALONE: &str = "--alone";

pub fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--print-page", path, offset] => pages::print_page(path.as_ref(), offset),
        ["--try-to-write", path] => locks::try_to_write(path.as_ref()),
        ["--add", path, vfs, times] => writers::add(path.as_ref(), vfs, times),
        ["--update", path, vfs, locking, times] => {
            calls::update(path.as_ref(), vfs, locking, times);
        }
        ["--write-until-killed", path, locking, synchronous, times, first] => {
            writers::write_until_killed(path.as_ref(), locking, synchronous, times, first);
        }
        flags if flags.contains(&"--list") => {}
        [ALONE] => all(),
        _ => all_alone(),
    }
}

/// Runs the tests in a process with a mount namespace of its own: no other process sees
/// their mounts, which end with that process, however it ends. Without the right to
/// make a namespace it just runs the tests.
fn all_alone() {
    if mount::can_run("unshare", &["--mount", "true"]).is_err() {
        return all();
    }
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--kill-child", "--fork"]).arg(this).arg(ALONE);
    assert!(command.status().unwrap().success());
}

fn all() {
    let mut mount = match XfsMount::make() {
        Ok(mount) => mount,
        Err(reason) => {
            leafpress_testing::say_skipped(format!("atomic writes on a real disk: {reason}"));
            return;
        }
    };
    pages::a_page_is_written_whole_and_read_by_plain_sqlite(&mount);
    pages::a_refused_write_changes_nothing(&mount);
    pages::every_reader_sees_what_was_written_past_the_page_cache(&mount);
    pages::a_page_that_is_being_read_is_written_in_the_end(&mount);
    locks::no_lock_of_a_plain_connection_is_lost(&mount);
    locks::stamps_tell_every_change(&mount);
    writers::processes_write_beside_one_another(&mount);
    calls::a_transaction_is_one_page_and_one_sync(&mount);
    writers::kills_lose_nothing(&mount);
    writers::power_cuts_lose_nothing(&mut mount);
}

/// This executable, as another process, until it ends.
fn run_self(arguments: &[&str]) -> Output {
    let output = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
