//! Processes that share a database are killed, stopped and misled, under load.
//!
//! This executable starts itself again as the processes that write, so it has no test harness. Of
//! each of them is asked:
//!
//! 1. A row whose call was answered with success is there, and no row is there twice.
//! 2. Each call of a process that lives is answered, and none with an error.
//! 3. No process waits for ever for one that was killed or stopped.
//!
//! A kill is no power cut: the simulator of crashes looks at what the syncs are for.
//!
//! `LEAFPRESS_SHARED_KILLS` says how often one process is killed; two at once are killed a third as
//! often. `LEAFPRESS_SHARED_SECONDS` says how long the load without kills lasts.

#[cfg(unix)]
mod judge;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod load;
#[cfg(unix)]
mod member;
#[cfg(unix)]
mod members;
#[cfg(unix)]
mod nonsense;
#[cfg(unix)]
mod stops;

#[cfg(not(unix))]
fn main() {
    println!("SKIPPED: processes cannot share a database on this system");
}

#[cfg(unix)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [member::FLAG, path, first_id, part] => {
            member::write_until_told(path.as_ref(), first_id.parse().unwrap(), part);
        }
        flags if flags.contains(&"--list") => {}
        _ => {
            kills::rows_answered_too_early_are_found_to_be_lost();
            kills::members_are_killed(number_from_environment("LEAFPRESS_SHARED_KILLS", 12));
            load::nothing_fails_under_load(number_from_environment("LEAFPRESS_SHARED_SECONDS", 3));
            load::more_writers_than_slots_write();
            stops::members_are_stopped();
            nonsense::a_process_writes_nonsense_into_the_page();
        }
    }
}

#[cfg(unix)]
fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => otherwise,
    }
}
