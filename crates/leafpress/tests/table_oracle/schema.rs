//! Random declarations of tables, and rows of texts that fit them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A declared table, and what is declared with it.
#[derive(Debug, Clone)]
pub struct Table {
    pub sql: String,
    pub columns: Vec<Column>,
    /// The column that is the rowid.
    pub rowid: Option<usize>,
    /// Columns of keys that the loader does not leave empty, although SQLite might.
    pub never_null: Vec<usize>,
}

impl Table {
    /// Whether there is more than the table and its indexes.
    pub fn declares_others(&self) -> bool {
        ["VIEW", "TRIGGER"].iter().any(|kind| self.sql.contains(&format!("CREATE {kind}")))
    }

    /// Leaves out the column that is the rowid, so that rows are numbered.
    pub fn without_rowids(mut self) -> Self {
        if self.rowid == Some(0) && self.columns.len() > 1 {
            self.columns.remove(0);
            (self.rowid, self.never_null) = (None, Vec::new());
        }
        self
    }
}

/// A column that rows give a value.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

/// What the texts of a column look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Text,
    Numeric,
    Blob,
    /// Text as it is.
    Any,
}

/// A field: NULL or a text.
pub type Cell = Option<String>;

#[derive(Debug, Clone)]
struct ColumnRecipe {
    declared: (&'static str, Kind),
    strict: (&'static str, Kind),
    not_null: bool,
    collation: &'static str,
    constraint: &'static str,
}

#[derive(Debug, Clone)]
struct IndexRecipe {
    columns: Vec<(Index, &'static str, &'static str)>,
    unique: bool,
    /// What makes it one that only SQLite can build.
    oddity: u8,
}

#[derive(Debug, Clone)]
struct TableRecipe {
    columns: Vec<ColumnRecipe>,
    /// 0 and 1: none, 2: INTEGER PRIMARY KEY, 3: one column, 4: some columns.
    key: u8,
    key_columns: Vec<(Index, &'static str)>,
    autoincrement: bool,
    without_rowid: bool,
    strict: bool,
    unique: Option<Vec<Index>>,
    indexes: Vec<IndexRecipe>,
    /// What SQLite must see to: CHECK, generated columns, a trigger, a view.
    extra: u8,
    /// Behind each statement.
    comment: &'static str,
}

const DECLARED: [(&str, Kind); 12] = [
    ("INTEGER", Kind::Integer),
    ("BIGINT", Kind::Integer),
    ("REAL", Kind::Real),
    ("DOUBLE PRECISION", Kind::Real),
    ("TEXT", Kind::Text),
    ("VARCHAR(9)", Kind::Text),
    ("TEXT", Kind::Text),
    ("NUMERIC", Kind::Numeric),
    ("DECIMAL(9,2)", Kind::Numeric),
    ("BLOB", Kind::Blob),
    ("", Kind::Any),
    ("INT", Kind::Integer),
];

const STRICT: [(&str, Kind); 6] = [
    ("INTEGER", Kind::Integer),
    ("INT", Kind::Integer),
    ("REAL", Kind::Real),
    ("TEXT", Kind::Text),
    ("BLOB", Kind::Blob),
    ("ANY", Kind::Any),
];

const COLLATIONS: [&str; 5] = ["", "", "", " COLLATE NOCASE", " COLLATE RTRIM"];

fn column() -> impl Strategy<Value = ColumnRecipe> {
    (
        select(&DECLARED[..]),
        select(&STRICT[..]),
        prop::bool::weighted(0.15),
        select(&COLLATIONS[..]),
        prop_oneof![12 => Just(""), 2 => Just(" UNIQUE"), 1 => Just(" DEFAULT 7")],
    )
        .prop_map(|(declared, strict, not_null, collation, constraint)| ColumnRecipe {
            declared,
            strict,
            not_null,
            collation,
            constraint,
        })
}

fn index(unique: f64, odd: bool) -> impl Strategy<Value = IndexRecipe> {
    let term = (any::<Index>(), select(&COLLATIONS[..]), select(&["", " DESC"][..]));
    let oddity = if odd {
        prop_oneof![6 => Just(0_u8), 1 => Just(1), 1 => Just(2)].boxed()
    } else {
        Just(0).boxed()
    };
    (vec(term, 1..4), prop::bool::weighted(unique), oddity)
        .prop_map(|(columns, unique, oddity)| IndexRecipe { columns, unique, oddity })
}

fn recipe() -> impl Strategy<Value = TableRecipe> {
    let shape = (
        vec(column(), 1..6),
        0..5_u8,
        vec((any::<Index>(), select(&["", " DESC"][..])), 1..3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.25),
    );
    let rest = (
        prop::option::weighted(0.2, vec(any::<Index>(), 1..3)),
        vec(index(0.3, true), 0..3),
        prop_oneof![12 => Just(0), 8 => 1..7_u8],
        prop_oneof![6 => Just(""), 1 => Just(" -- note"), 1 => Just(" /* note")],
    );
    (shape, rest).prop_map(
        |(
            (columns, key, key_columns, autoincrement, without_rowid, strict),
            (unique, indexes, extra, comment),
        )| TableRecipe {
            columns,
            key,
            key_columns,
            autoincrement,
            without_rowid,
            strict,
            unique,
            indexes,
            extra,
            comment,
        },
    )
}

/// A random table with its declaration.
pub fn table() -> impl Strategy<Value = Table> {
    recipe().prop_map(|recipe| recipe.resolve())
}

fn name(at: usize) -> String {
    ["a", "b c", "C", "d\"e", "year", "\u{e9}"][at].to_owned()
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl TableRecipe {
    fn resolve(&self) -> Table {
        let mut columns: Vec<Column> = Vec::new();
        let mut parts = Vec::new();
        for (at, recipe) in self.columns.iter().enumerate() {
            let (declared, kind) = if self.strict { recipe.strict } else { recipe.declared };
            let is_rowid = self.key == 2 && at == 0 && !self.without_rowid;
            let (declared, kind) =
                if is_rowid { ("INTEGER", Kind::Integer) } else { (declared, kind) };
            let mut part = format!("{} {declared}", quoted(&name(at)));
            if is_rowid {
                part.push_str(" PRIMARY KEY");
                part.push_str(if self.autoincrement { " AUTOINCREMENT" } else { "" });
            } else {
                part.push_str(if recipe.not_null { " NOT NULL" } else { "" });
                part.push_str(recipe.collation);
                // INSERT OR REPLACE gives a NULL the default where there is NOT NULL, as
                // the keys of STRICT tables have without a word; a load takes the row for
                // a bad one.
                let may_be_not_null = recipe.not_null || self.without_rowid || self.strict;
                let is_plain = recipe.constraint != " DEFAULT 7" || !may_be_not_null;
                part.push_str(if is_plain { recipe.constraint } else { "" });
            }
            columns.push(Column { name: name(at), kind });
            parts.push(part);
        }
        let pick = |index: &Index| index.index(columns.len());
        match self.extra {
            1 => parts.push(format!("g1 TEXT AS (lower({}))", quoted(&columns[0].name))),
            2 => parts.push(format!(
                "g2 INT GENERATED ALWAYS AS (length({})) STORED",
                quoted(&columns[0].name)
            )),
            _ => {}
        }
        let mut key: Vec<usize> = Vec::new();
        let mut key_sql = Vec::new();
        for (index, direction) in &self.key_columns {
            let column = pick(index);
            if !key.contains(&column) {
                key.push(column);
                key_sql.push(format!("{}{direction}", quoted(&columns[column].name)));
            }
            if self.key == 3 {
                break;
            }
        }
        let without_rowid = self.without_rowid && self.key >= 3;
        let mut rowid = (self.key == 2 && !self.without_rowid).then_some(0);
        if self.key >= 3 {
            // DESC or not: SQLite takes a lone INTEGER column for the rowid.
            let declared_integer = {
                let recipe = &self.columns[key[0]];
                let (declared, _) = if self.strict { recipe.strict } else { recipe.declared };
                declared == "INTEGER"
            };
            if !without_rowid && key.len() == 1 && declared_integer && rowid.is_none() {
                rowid = Some(key[0]);
            }
            parts.push(format!("PRIMARY KEY ({})", key_sql.join(", ")));
        }
        if let Some(unique) = &self.unique {
            let mut names: Vec<String> =
                unique.iter().map(|index| quoted(&columns[pick(index)].name)).collect();
            names.dedup();
            parts.push(format!("UNIQUE ({})", names.join(", ")));
        }
        match self.extra {
            3 => parts.push(format!("CHECK ({} IS NOT 'bad')", quoted(&columns[0].name))),
            4 => parts.push(format!("CHECK (length({}) < 4)", quoted(&columns[0].name))),
            _ => {}
        }
        let sql = self.statements(&parts, &columns, without_rowid);
        Table { sql, columns, rowid, never_null: rowid.into_iter().collect() }
    }

    /// The table's statement of its parts, and all that is declared with it.
    fn statements(&self, parts: &[String], columns: &[Column], without_rowid: bool) -> String {
        let options: Vec<&str> = [(self.strict, "STRICT"), (without_rowid, "WITHOUT ROWID")]
            .into_iter()
            .filter_map(|(is, word)| is.then_some(word))
            .collect();
        let table = format!("CREATE TABLE t ({}) {}", parts.join(", "), options.join(", "));
        let mut all = vec![table];
        all.extend(self.indexes.iter().enumerate().map(|(at, index)| index.sql(at, columns)));
        let extra: &[&str] = match self.extra {
            5 => &[
                "CREATE TABLE log (n)",
                "CREATE TRIGGER tr AFTER INSERT ON t BEGIN \
                 INSERT INTO log VALUES ((SELECT count(*) FROM t)); END",
            ],
            6 => &["CREATE VIEW v AS SELECT * FROM t", "CREATE TABLE beside (x UNIQUE)"],
            _ => &[],
        };
        all.extend(extra.iter().map(|sql| (*sql).to_owned()));
        let end = if self.comment.contains("/*") { " */" } else { "\n" };
        // The last comment has no end.
        all.join(&format!("{}{end};\n", self.comment)) + self.comment
    }
}

impl IndexRecipe {
    fn sql(&self, number: usize, columns: &[Column]) -> String {
        let mut terms: Vec<String> = self
            .columns
            .iter()
            .map(|(index, collation, direction)| {
                let column = &columns[index.index(columns.len())];
                format!("{}{collation}{direction}", quoted(&column.name))
            })
            .collect();
        if self.oddity == 1 {
            let first = quoted(&columns[self.columns[0].0.index(columns.len())].name);
            terms[0] = format!("lower({first})");
        }
        let partial = if self.oddity == 2 {
            format!(" WHERE {} > 'b'", quoted(&columns[0].name))
        } else {
            String::new()
        };
        let unique = if self.unique { "UNIQUE " } else { "" };
        format!("CREATE {unique}INDEX i{number} ON t ({}){partial}", terms.join(", "))
    }
}

/// In which order rows come.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    Random,
    /// By the first column, more or less as SQLite sorts.
    Ascending,
    NearlyAscending,
}

/// How many different values a column has.
#[derive(Debug, Clone, Copy)]
struct Spread(u32);

/// Rows of texts for these columns.
pub fn rows(columns: &[Column], len: usize) -> impl Strategy<Value = Vec<Vec<Cell>>> + use<> {
    let columns = columns.to_vec();
    let seeds = vec(vec(any::<u32>(), columns.len()), 0..len);
    let spreads =
        vec(select(vec![Spread(4), Spread(30), Spread(1000), Spread(1 << 31)]), columns.len());
    let order = select(vec![Order::Random, Order::Ascending, Order::NearlyAscending]);
    (seeds, spreads, order, 0..40_u32).prop_map(move |(seeds, spreads, order, nulls)| {
        let row = |seeds: Vec<u32>| -> Vec<Cell> {
            let cells = columns.iter().zip(&spreads).zip(seeds);
            cells.map(|((column, spread), seed)| cell(column.kind, *spread, nulls, seed)).collect()
        };
        let mut rows: Vec<_> = seeds.into_iter().map(row).collect();
        arrange(&mut rows, columns[0].kind, order);
        rows
    })
}

fn arrange(rows: &mut [Vec<Cell>], kind: Kind, order: Order) {
    if matches!(order, Order::Random) {
        return;
    }
    if matches!(kind, Kind::Integer | Kind::Real | Kind::Numeric) {
        let number = |row: &Vec<Cell>| -> f64 {
            let text = row[0].as_deref().unwrap_or("-1e30").trim();
            text.parse().unwrap_or(1e30)
        };
        rows.sort_by(|one, other| number(one).total_cmp(&number(other)));
    } else {
        rows.sort_by(|one, other| one[0].cmp(&other[0]));
    }
    if matches!(order, Order::NearlyAscending) && rows.len() > 3 {
        let (one, other) = (rows.len() / 2, rows.len() - 1);
        rows.swap(one, other);
    }
}

/// A field that fits the column. Empty ones are NULL but in columns of text.
fn cell(kind: Kind, Spread(spread): Spread, nulls: u32, seed: u32) -> Cell {
    let n = seed.wrapping_mul(2_654_435_761) % spread;
    if seed % 100 < nulls / 4 {
        return None;
    }
    let text = match kind {
        Kind::Integer => integer(n, seed),
        Kind::Real => real(n, seed),
        Kind::Text => text(n, seed),
        Kind::Any => match text(n, seed) {
            text if text.is_empty() => "e".to_owned(),
            text => text,
        },
        Kind::Numeric => match seed % 5 {
            0 => format!("{n}.0"),
            1 => format!("{n}.50"),
            2 => format!("{n}x"),
            3 => format!("{n}"),
            _ => format!("{n}e2"),
        },
        Kind::Blob => format!("{n:08x}"),
    };
    Some(text)
}

fn integer(n: u32, seed: u32) -> String {
    let n = i64::from(n) - 2;
    match seed % 23 {
        0 => format!("{n}.0"),
        1 => format!("+{}", n.abs()),
        2 => format!(" {n}"),
        3 => format!("00{}", n.abs()),
        4 if n > 1000 => (n * 1_000_000_007).to_string(),
        _ => n.to_string(),
    }
}

fn real(n: u32, seed: u32) -> String {
    match seed % 7 {
        0 => format!("{n}"),
        1 => format!("{n}.00"),
        2 => format!("-{n}e-2"),
        _ => format!("{}", f64::from(n) / 8.0),
    }
}

fn text(n: u32, seed: u32) -> String {
    let base = match n % 11 {
        0 => format!("a{}", n / 11),
        1 => format!("A{}", n / 11),
        2 => format!("{}", n / 11),
        3 => format!("{}.0", n / 11),
        4 => format!("b\u{e9}{}", n / 11),
        5 => format!("x,{}", n / 11),
        6 => format!("q\"{}", n / 11),
        7 => format!("l\n{}", n / 11),
        8 => format!("bad{}", if n < 11 { String::new() } else { n.to_string() }),
        9 => "long ".repeat(1 + (n as usize / 11) % 900),
        _ if n < 11 => String::new(),
        _ => format!("z{}", n / 11),
    };
    match seed % 13 {
        0 => format!("{base} "),
        1 => base.to_uppercase(),
        _ => base,
    }
}
