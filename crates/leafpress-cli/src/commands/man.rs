//! `leafpress man`: manual pages, made from the flags.
//!
//! Must never: say anything that `--help` does not.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::exit::Status;
use crate::flags::{Flags, ManFlags};
use crate::output;
use leafpress::path_text;

/// Prints leafpress(1), or writes one page per command into a folder.
pub fn run(flags: &ManFlags) -> Status {
    let Some(folder) = &flags.folder else { return print_main_page() };
    match write_pages(folder) {
        Ok(()) => Status::Done,
        Err(error) => {
            let folder = path_text(folder);
            output::print_error(&format!("cannot write the manual pages to {folder}: {error}"));
            Status::Failed
        }
    }
}

fn print_main_page() -> Status {
    match page(Flags::command()) {
        Ok(page) => output::print_result(&String::from_utf8_lossy(&page)),
        Err(error) => {
            output::print_error(&format!("cannot make the manual page: {error}"));
            Status::Failed
        }
    }
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// Writes `leafpress.1`, and `leafpress-load.1` and so on for its commands.
#[expect(clippy::disallowed_methods, reason = "a folder of documents belongs to no database")]
fn write_pages(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // A page of that name may be a link to another file: it is replaced, not written through.
    let new = folder.join(format!(".leafpress-man-{}", std::process::id()));
    fs::create_dir(&new)?;
    let moved = clap_mangen::generate_to(Flags::command().disable_help_subcommand(true), &new)
        .and_then(|()| move_all(&new, folder));
    moved.and(fs::remove_dir_all(&new))
}

fn move_all(from: &Path, into: &Path) -> io::Result<()> {
    for page in fs::read_dir(from)? {
        let page = page?;
        fs::rename(page.path(), into.join(page.file_name()))?;
    }
    Ok(())
}
