//! The flags of the options that the library's advice names: one table.
//!
//! Must never: be asked for an option that it does not have; a test compares it with the library.

/// Options of the library, and their flags.
const FLAGS: [(&str, &str); 56] = [
    ("all_files", "a pattern in quotes, such as 'folder/*.csv'"),
    ("all_text", "--all-text"),
    ("append", "--append"),
    ("busy_limit", "--busy-timeout"),
    ("columns", "--columns"),
    ("comment", "--comment"),
    ("declaration", "--create"),
    ("declaration_file", "--schema"),
    ("delay", "--delay"),
    ("delimiter", "--delimiter"),
    ("drop", "--drop"),
    ("dry_run", "--dry-run"),
    ("due", "--due"),
    ("encoding", "--encoding"),
    ("escape", "--escape"),
    ("exact", "--exact"),
    ("expires", "--expires"),
    ("format", "--format"),
    ("if_not_exists", "--if-not-exists"),
    ("ignore", "--ignore"),
    ("index", "--index"),
    ("index_name", "--name"),
    ("layout", "--layout"),
    ("max_rejects", "--max-rejects"),
    ("max_row_bytes", "--max-row-bytes"),
    ("memory", "--memory"),
    ("mysql_text", "--format mysqltext"),
    ("no_header", "--no-header"),
    ("no_quote", "--quote none"),
    ("not_null", "--not-null"),
    ("null", "--null"),
    ("older_than", "--older-than"),
    ("on_conflict", "--on-conflict"),
    ("on_conflict_ignore", "--on-conflict ignore"),
    ("on_conflict_replace", "--on-conflict replace"),
    ("page_size", "--page-size"),
    ("postgres_text", "--format pgtext"),
    ("preset", "--preset"),
    ("primary_key", "--pk"),
    ("quote", "--quote"),
    ("ragged", "--ragged"),
    ("rejects", "--rejects"),
    ("rename", "--rename"),
    ("replace", "--replace"),
    ("seed", "--seed"),
    ("select", "--select"),
    ("skip_bad_rows", "--on-error skip --rejects FILE"),
    ("skip_lines", "--skip-lines"),
    ("strict", "--strict"),
    ("table", "--table"),
    ("tmpdir", "--tmpdir"),
    ("type", "--type"),
    ("unique", "--unique"),
    ("upsert", "--upsert"),
    ("uuid7", "--uuid7"),
    ("without_rowid", "--without-rowid"),
];

/// An option of the library as a flag, with its value.
pub fn as_flag(option: &str, value: Option<&str>) -> String {
    let known = FLAGS.into_iter().find(|(name, _)| *name == option);
    let flag = known.map_or(option, |(_, flag)| flag);
    match value {
        Some(value) => format!("{flag} {value}"),
        None => flag.to_owned(),
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
        assert_eq!(FLAGS.map(|(name, _)| name).to_vec(), options);
        let mut command = Flags::command();
        command.build();
        for (option, flags) in FLAGS {
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
