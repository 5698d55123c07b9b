//! The tables that calls add their rows to: the plain one, and those with more to do for each row.
//!
//! Every table has the columns of the plain one, and its rowids, so a call's row is checked in one
//! way. Further columns follow from the call's number, by the statement itself.
//!
//! Must never: let a row do without what its table is for; the check counts that, too.

use serde::{Deserialize, Serialize};

use super::call::{INSERT, TABLE};

/// Work that each row makes besides its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Table {
    /// None.
    #[default]
    Plain,
    /// A trigger adds a row to a log.
    Trigger,
    /// Two foreign keys are looked up, and foreign keys are enforced.
    ForeignKeys,
    /// Five indexes get an entry; one of them in no order, one of them by its text.
    FiveIndexes,
    /// The text is indexed by its words (FTS5).
    FullText,
}

const TRIGGER: &str = "CREATE TABLE log(call INTEGER, caller INTEGER, n INTEGER); \
     CREATE TRIGGER call_logged AFTER INSERT ON call BEGIN \
     INSERT INTO log(call, caller, n) VALUES (new.id, new.caller, new.n); END";

const FOREIGN_KEYS: &str = "CREATE TABLE tenant(id INTEGER PRIMARY KEY, name TEXT); \
     CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); \
     CREATE TABLE call(id INTEGER PRIMARY KEY, caller INTEGER, n INTEGER, text TEXT, \
     tenant INTEGER NOT NULL REFERENCES tenant(id), item INTEGER NOT NULL REFERENCES item(id)); \
     INSERT INTO item WITH RECURSIVE number(id) AS \
     (SELECT 0 UNION ALL SELECT id + 1 FROM number WHERE id < 9999) \
     SELECT id, 'item ' || id FROM number; \
     INSERT INTO tenant SELECT id, 'tenant ' || id FROM item WHERE id < 1000";
const FOREIGN_KEYS_INSERT: &str = "INSERT INTO call(caller, n, text, tenant, item) \
     VALUES (?1, ?2, ?3, ?2 % 1000, ?2 * 7919 % 10000)";

const FIVE_INDEXES: &str = "CREATE TABLE call(id INTEGER PRIMARY KEY, caller INTEGER, n INTEGER, \
     text TEXT, code INTEGER, day INTEGER, city INTEGER); \
     CREATE INDEX call_n ON call(n); CREATE INDEX call_text ON call(text); \
     CREATE INDEX call_code ON call(code); CREATE INDEX call_day ON call(day, city); \
     CREATE INDEX call_city ON call(city, n)";
/// The code is the number times a prime, by which neighbours are far apart.
const FIVE_INDEXES_INSERT: &str = "INSERT INTO call(caller, n, text, code, day, city) \
     VALUES (?1, ?2, ?3, ?2 * 2654435761 % 4294967296, ?2 / 1000, ?2 % 16)";

const FULL_TEXT: &str = "CREATE VIRTUAL TABLE call USING fts5(text, caller UNINDEXED, n UNINDEXED)";

impl Table {
    /// Those with more to do.
    pub(super) const LADEN: [Self; 4] =
        [Self::Trigger, Self::ForeignKeys, Self::FiveIndexes, Self::FullText];

    /// Returns true for the plain one.
    pub(super) fn is_plain(self) -> bool {
        self == Self::Plain
    }

    /// Statements that make it.
    pub(super) fn schema(self) -> String {
        match self {
            Self::Plain => TABLE.to_owned(),
            Self::Trigger => format!("{TABLE}; {TRIGGER}"),
            Self::ForeignKeys => FOREIGN_KEYS.to_owned(),
            Self::FiveIndexes => FIVE_INDEXES.to_owned(),
            Self::FullText => FULL_TEXT.to_owned(),
        }
    }

    /// Statement of every call.
    pub(super) fn insert(self) -> &'static str {
        match self {
            Self::Plain | Self::Trigger | Self::FullText => INSERT,
            Self::ForeignKeys => FOREIGN_KEYS_INSERT,
            Self::FiveIndexes => FIVE_INDEXES_INSERT,
        }
    }

    /// Name in rungs and charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Trigger => "a trigger",
            Self::ForeignKeys => "two foreign keys",
            Self::FiveIndexes => "five indexes",
            Self::FullText => "full text",
        }
    }

    /// First word of its ratio's name.
    pub(super) fn ratio_name(self) -> &'static str {
        match self {
            Self::Plain => "pipelined",
            Self::Trigger => "triggers",
            Self::ForeignKeys => "foreign_keys",
            Self::FiveIndexes => "five_indexes",
            Self::FullText => "full_text",
        }
    }

    /// Query that counts the rows for which all was done besides; none for the plain table.
    pub(super) fn done_query(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Trigger => Some(
                "SELECT count(*) FROM call JOIN log ON log.rowid = call.id \
                 AND log.call = call.id AND log.caller = call.caller AND log.n = call.n",
            ),
            Self::ForeignKeys => Some(
                "SELECT count(*) FROM call JOIN tenant ON tenant.id = call.tenant \
                 JOIN item ON item.id = call.item \
                 WHERE tenant = n % 1000 AND item = n * 7919 % 10000",
            ),
            // The integrity check compares the entries with the rows.
            Self::FiveIndexes => Some(
                "SELECT count(*) FROM call WHERE code = n * 2654435761 % 4294967296 \
                 AND 5 = (SELECT count(*) FROM pragma_index_list('call'))",
            ),
            Self::FullText => Some(
                "SELECT count(*) FROM call WHERE call MATCH 'text:caller' \
                 AND text = printf('caller %05d, call %010d', caller, n)",
            ),
        }
    }
}
