//! The flags of the options that the library's advice names: of the same name, with exceptions.
//!
//! Must never: be asked for an option that has no flag; a test compares them with the library.

use std::borrow::Cow;

/// Options whose flags have other names.
const EXCEPTIONS: [(&str, &str); 12] = [
    ("all_files", "a pattern in quotes, such as 'folder/*.csv'"),
    ("busy_limit", "--busy-timeout"),
    ("declaration", "--create"),
    ("declaration_file", "--schema"),
    ("index_name", "--name"),
    ("mysql_text", "--format mysqltext"),
    ("no_quote", "--quote none"),
    ("on_conflict_ignore", "--on-conflict ignore"),
    ("on_conflict_replace", "--on-conflict replace"),
    ("postgres_text", "--format pgtext"),
    ("primary_key", "--pk"),
    ("skip_bad_rows", "--on-error skip --rejects FILE"),
];

/// The flag of an option.
fn flag_of(option: &str) -> Cow<'static, str> {
    match EXCEPTIONS.iter().find(|(name, _)| *name == option) {
        Some((_, flag)) => Cow::Borrowed(flag),
        None => Cow::Owned(format!("--{}", option.replace('_', "-"))),
    }
}

/// An option of the library as a flag, with its value.
pub fn as_flag(option: &str, value: Option<&str>) -> String {
    let flag = flag_of(option);
    match value {
        Some(value) => format!("{flag} {value}"),
        None => flag.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Flags;

    /// Returns true if a command, or one of those in it, has the flag.
    fn has_flag(command: &clap::Command, flag: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == Some(flag))
            || command.get_subcommands().any(|it| has_flag(it, flag))
    }

    #[test]
    fn each_option_of_the_library_has_a_flag_of_the_command() {
        let options: Vec<_> = leafpress::option_names().collect();
        for (option, _) in EXCEPTIONS {
            assert!(options.contains(&option), "{option}");
        }
        let mut command = Flags::command();
        command.build();
        for option in options {
            let flags = flag_of(option);
            for flag in flags.split(' ').filter_map(|word| word.strip_prefix("--")) {
                assert!(has_flag(&command, flag), "{option}: --{flag}");
            }
        }
    }

    #[test]
    fn a_value_follows_its_flag() {
        assert_eq!(as_flag("delimiter", Some("';'")), "--delimiter ';'");
        assert_eq!(as_flag("append", None), "--append");
    }
}
