//! Random declarations of a table that is there: keys, conflict clauses, indexes, and triggers.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::existing_oracle::Table;

const NAMES: [&str; 3] = ["i", "t", "n"];

/// A column's rules.
#[derive(Debug, Clone)]
struct Rules {
    not_null: Option<&'static str>,
    unique: Option<&'static str>,
    default: bool,
    check: bool,
    nocase: bool,
}

/// Kind of the primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    None,
    Rowid,
    Autoincrement,
    Text,
    Both,
    BothDescending,
}

const CONFLICTS: [&str; 5] = [
    "ON CONFLICT IGNORE",
    "ON CONFLICT REPLACE",
    "ON CONFLICT FAIL",
    "ON CONFLICT ROLLBACK",
    "ON CONFLICT ABORT",
];

const INDEXED: [&str; 9] =
    ["i", "t", "n DESC", "lower(t)", "i % 7", "t COLLATE NOCASE", "i + n", "t, n", "n, lower(t)"];

const WHERE: [&str; 4] = ["i > 20", "t IS NOT NULL", "n < 5", "t LIKE 'a%'"];

const TRIGGERS: [&str; 12] = [
    "BEFORE INSERT ON t WHEN new.n < 2 BEGIN SELECT RAISE(IGNORE); END",
    "BEFORE INSERT ON t WHEN new.i = 11 BEGIN SELECT RAISE(ABORT, 'eleven'); END",
    "BEFORE INSERT ON t BEGIN INSERT INTO log VALUES ('before ' || quote(new.t)); END",
    "AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('after ' || quote(new.t)); END",
    "AFTER INSERT ON t WHEN new.i = 12 BEGIN SELECT RAISE(FAIL, 'twelve'); END",
    "AFTER INSERT ON t WHEN new.i = 13 BEGIN SELECT RAISE(IGNORE); END",
    "AFTER INSERT ON t WHEN new.i > 35 BEGIN UPDATE t SET n = 3 WHERE i = new.i; END",
    "AFTER INSERT ON t WHEN new.i = 14 BEGIN DELETE FROM t WHERE i = 15; END",
    "BEFORE UPDATE ON t WHEN new.n = 4 BEGIN SELECT RAISE(IGNORE); END",
    "AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (quote(old.t) || quote(new.t)); END",
    "BEFORE DELETE ON t BEGIN INSERT INTO log VALUES ('gone ' || quote(old.t)); END",
    "AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('went ' || quote(old.t)); END",
];

/// One in some.
fn seldom(one_in: u32) -> impl Strategy<Value = bool> {
    prop::bool::weighted(1.0 / f64::from(one_in))
}

/// A rule that is seldom there, and then seldom says what a conflict does.
fn rule(one_in: u32) -> impl Strategy<Value = Option<&'static str>> {
    let conflict = prop_oneof![5 => Just(""), 1 => select(CONFLICTS.to_vec())];
    prop::option::weighted(1.0 / f64::from(one_in), conflict)
}

fn rules() -> impl Strategy<Value = Rules> {
    (rule(5), rule(5), seldom(3), seldom(6), seldom(4)).prop_map(
        |(not_null, unique, default, check, nocase)| Rules {
            not_null,
            unique,
            default,
            check,
            nocase,
        },
    )
}

#[derive(Debug, Clone)]
struct Declaration {
    columns: [Rules; 3],
    key: Key,
    key_conflict: &'static str,
    without_rowid: bool,
    strict: bool,
    pair: Option<&'static str>,
    generated: Option<&'static str>,
    indexes: Vec<(bool, &'static str, Option<&'static str>)>,
    triggers: Vec<&'static str>,
}

/// A random table `t` with the columns `i`, `t` and `n`, and a table `log`.
pub fn table() -> impl Strategy<Value = Table> {
    let keys =
        vec![Key::None, Key::Rowid, Key::Autoincrement, Key::Text, Key::Both, Key::BothDescending];
    let conflict = prop_oneof![6 => Just(""), 1 => select(CONFLICTS.to_vec())];
    let generated = vec![
        "AS (t || i) STORED",
        "AS (n * 2) VIRTUAL",
        "AS (lower(t)) UNIQUE",
        "AS (i % 9) NOT NULL",
    ];
    let index = (
        any::<bool>(),
        select(INDEXED.to_vec()),
        prop::option::weighted(0.3, select(WHERE.to_vec())),
    );
    let triggers = prop_oneof![Just(Vec::new()), subsequence(TRIGGERS.to_vec(), 1..=2),];
    let table = (
        [rules(), rules(), rules()],
        (select(keys), conflict, seldom(3), seldom(4)),
        rule(6),
        prop::option::weighted(0.2, select(generated)),
        prop::collection::vec(index, 0..3),
        triggers,
    );
    table.prop_map(
        |(
            columns,
            (key, key_conflict, without_rowid, strict),
            pair,
            generated,
            indexes,
            triggers,
        )| {
            let declaration = Declaration {
                columns,
                without_rowid: without_rowid && !matches!(key, Key::None | Key::Autoincrement),
                key,
                key_conflict,
                strict,
                pair,
                generated,
                indexes,
                triggers,
            };
            declaration.table()
        },
    )
}

impl Declaration {
    fn table(&self) -> Table {
        let sql = self.sql();
        // A trigger runs before SQLite looks for NULL, and may pass over the row.
        let has_before_trigger = self.triggers.iter().any(|it| it.starts_with("BEFORE"));
        let passes_over = has_before_trigger && !sql.contains("ON CONFLICT");
        let columns = || NAMES.into_iter().zip(&self.columns);
        let not_null: Vec<(&'static str, &Rules)> =
            columns().filter(|(name, rules)| self.is_not_null(name, rules)).collect();
        let needed = not_null.iter().filter(|(_, rules)| !rules.default && !passes_over);
        Table {
            key: self.upsert_key(),
            needed: needed.map(|(name, _)| *name).collect(),
            not_null: not_null.iter().map(|(name, _)| *name).collect(),
            has_unique: self.key != Key::None
                || self.pair.is_some()
                || self.columns.iter().any(|it| it.unique.is_some())
                || self.generated.is_some_and(|it| it.contains("UNIQUE"))
                || self.indexes.iter().any(|(unique, _, only)| *unique && only.is_none()),
            sql,
        }
    }

    /// The statements that make the table, its indexes and its triggers.
    fn sql(&self) -> String {
        let columns = NAMES.into_iter().zip(&self.columns);
        let mut parts: Vec<String> =
            columns.map(|(name, rules)| self.column(name, rules)).collect();
        let any = if self.strict { "ANY" } else { "" };
        parts.extend(self.generated.map(|it| format!("g {any} {it}")));
        let conflict = self.key_conflict;
        match self.key {
            Key::Both => parts.push(format!("PRIMARY KEY (t, i) {conflict}")),
            Key::BothDescending => parts.push(format!("PRIMARY KEY (i DESC, t) {conflict}")),
            _ => {}
        }
        parts.extend(self.pair.map(|conflict| format!("UNIQUE (n, i) {conflict}")));
        let strict = self.strict.then_some("STRICT");
        let options: Vec<_> =
            strict.into_iter().chain(self.without_rowid.then_some("WITHOUT ROWID")).collect();
        let table = format!("CREATE TABLE t({}) {}", parts.join(", "), options.join(", "));
        let indexes = self.indexes.iter().enumerate().map(|(number, (unique, of, only))| {
            let unique = if *unique { "UNIQUE" } else { "" };
            let only = only.map_or_else(String::new, |it| format!("WHERE {it}"));
            format!("CREATE {unique} INDEX x{number} ON t({of}) {only}")
        });
        let triggers = self.triggers.iter().enumerate();
        let triggers = triggers.map(|(number, it)| format!("CREATE TRIGGER g{number} {it}"));
        let all: Vec<_> = [table, "CREATE TABLE log(x)".to_owned()]
            .into_iter()
            .chain(indexes)
            .chain(triggers)
            .collect();
        all.join("; ")
    }

    fn is_not_null(&self, name: &str, rules: &Rules) -> bool {
        let is_of_the_key = self.is_of_the_key(name);
        if is_of_the_key && self.is_numbered() {
            return false;
        }
        rules.not_null.is_some() || is_of_the_key && (self.strict || self.without_rowid)
    }

    fn column(&self, name: &str, rules: &Rules) -> String {
        let types = match (name, self.strict) {
            ("i", _) => "INTEGER",
            ("t", _) => "TEXT",
            (_, true) => "REAL",
            (_, false) => "NUMERIC",
        };
        let conflict = self.key_conflict;
        let key = match (self.key, name) {
            (Key::Rowid, "i") | (Key::Text, "t") => format!("PRIMARY KEY {conflict}"),
            (Key::Autoincrement, "i") => format!("PRIMARY KEY {conflict} AUTOINCREMENT"),
            _ => String::new(),
        };
        let (default, check) = match name {
            "i" => ("DEFAULT 7", "CHECK (i < 35)"),
            "t" => ("DEFAULT 'none'", "CHECK (length(t) < 2)"),
            _ => ("DEFAULT 1.5", "CHECK (n <> 6)"),
        };
        let unique = rules.unique.filter(|_| !self.is_the_key(name));
        let all = [
            format!("{name} {types} {key}"),
            rules.not_null.map_or_else(String::new, |it| format!("NOT NULL {it}")),
            unique.map_or_else(String::new, |it| format!("UNIQUE {it}")),
            if rules.default { default } else { "" }.to_owned(),
            if rules.check { check } else { "" }.to_owned(),
            if name == "t" && rules.nocase { "COLLATE NOCASE" } else { "" }.to_owned(),
        ];
        all.join(" ")
    }

    /// Returns true for a key of this column alone. It is unique already.
    fn is_the_key(&self, name: &str) -> bool {
        self.is_of_the_key(name) && !matches!(self.key, Key::Both | Key::BothDescending)
    }

    fn is_of_the_key(&self, name: &str) -> bool {
        match self.key {
            Key::None => false,
            Key::Rowid | Key::Autoincrement => name == "i",
            Key::Text => name == "t",
            Key::Both | Key::BothDescending => name != "n",
        }
    }

    /// Returns true if SQLite gives the key a number in place of NULL.
    fn is_numbered(&self) -> bool {
        !self.without_rowid && matches!(self.key, Key::Rowid | Key::Autoincrement)
    }

    /// The columns of the primary key, else of the only unique index of columns for all rows.
    fn upsert_key(&self) -> Vec<&'static str> {
        if self.key != Key::None {
            return NAMES.into_iter().filter(|name| self.is_of_the_key(name)).collect();
        }
        let mut keys: Vec<Vec<&'static str>> = Vec::new();
        keys.extend(self.pair.map(|_| vec!["n", "i"]));
        let unique =
            NAMES.into_iter().zip(&self.columns).filter(|(_, rules)| rules.unique.is_some());
        keys.extend(unique.map(|(name, _)| vec![name]));
        if self.generated.is_some_and(|it| it.contains("UNIQUE")) {
            return Vec::new();
        }
        for (_, of, _) in self.indexes.iter().filter(|(unique, _, only)| *unique && only.is_none())
        {
            match *of {
                "i" => keys.push(vec!["i"]),
                "t" => keys.push(vec!["t"]),
                "n DESC" => keys.push(vec!["n"]),
                "t, n" => keys.push(vec!["t", "n"]),
                "t COLLATE NOCASE" => return Vec::new(),
                _ => {}
            }
        }
        if keys.len() == 1 { keys.remove(0) } else { Vec::new() }
    }
}
