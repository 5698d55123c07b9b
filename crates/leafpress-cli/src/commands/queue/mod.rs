//! `leafpress queue`: one file per kind of action.
//!
//! They share the way into a database (`database.rs`), or into that or a cluster (`place.rs`).

mod admin;
mod database;
mod json;
mod look;
mod ndjson;
mod place;
mod push;
mod schedule;
mod settings;
mod settle;
mod stats;
mod template;
mod view;
mod waiting;
mod work;

use crate::exit::Status;
use crate::flags::{QueueAction, QueueFlags, QueueScheduleAction};

/// Runs one action.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &QueueFlags) -> Result<Status, clap::Error> {
    Ok(match &flags.action {
        QueueAction::Push(flags) => return push::run(flags),
        QueueAction::Claim(flags) => settle::claim(flags),
        QueueAction::Ack(flags) => return settle::ack(flags),
        QueueAction::Nack(flags) => settle::nack(flags),
        QueueAction::Fail(flags) => settle::fail(flags),
        QueueAction::Release(flags) => settle::release(flags),
        QueueAction::Extend(flags) => settle::extend(flags),
        QueueAction::Work(flags) => work::run(flags),
        QueueAction::List(flags) => look::list(flags),
        QueueAction::Show(flags) => look::show(flags),
        QueueAction::Stats(flags) => stats::run(flags),
        QueueAction::Retry(flags) => return admin::retry(flags),
        QueueAction::Remove(flags) => admin::remove(flags),
        QueueAction::Purge(flags) => admin::purge(flags),
        QueueAction::Pause(flags) => admin::pause(flags),
        QueueAction::Resume(flags) => admin::resume(flags),
        QueueAction::Settings(flags) => settings::run(flags),
        QueueAction::Schedule(flags) => match &flags.action {
            QueueScheduleAction::Add(flags) => schedule::add(flags),
            QueueScheduleAction::List(flags) => schedule::list(flags),
            QueueScheduleAction::Remove(flags) => schedule::remove(flags),
        },
    })
}
