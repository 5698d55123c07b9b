//! Presets: settings of a new database for the place where it will live.
//!
//! Each rule is one of the place's documentation, which docs/loading.md names. They are checked before
//! any row is read. Must never: change a setting that the caller has given.

use std::str::FromStr;

use crate::error::{Error, Result};

/// Order of the pages of a new database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// As they are pressed, for readers on the machine that has the file.
    #[default]
    Local,
    /// The schema and all interior pages in front, and each chain of overflow pages in one piece: for
    /// readers that fetch ranges of the file over a network. Such a reader needs one request at the
    /// open, and one for a row. Any SQLite reads the file.
    ///
    /// Unless it is given, the page size is the smallest one from 8192 bytes on with which nearly all
    /// rows need no overflow pages; where that is more, the rows are pressed once more. All pages are
    /// written twice where the size of the input is not known before, or keys are very long.
    Remote,
}

/// The place where a new database will live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// Turso Cloud, which takes an uploaded file: WAL mode, pages of 4096 bytes, UTF-8, no auto-vacuum.
    Turso,
    /// rqlite, which takes a file as the content of a new cluster: a rollback journal.
    Rqlite,
    /// `LiteFS`, which takes a file by `litefs import`: a rollback journal.
    LiteFs,
    /// A web server with sql.js-httpvfs as the reader: [`Layout::Remote`] and pages of 1024 bytes.
    HttpVfs,
    /// An app for Android or iOS, which has the file in its package: a rollback journal, and no
    /// STRICT table, which older versions of Android cannot open.
    Mobile,
}

impl Preset {
    const ALL: [Self; 5] = [Self::Turso, Self::Rqlite, Self::LiteFs, Self::HttpVfs, Self::Mobile];

    /// Name of the preset in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Turso => "turso",
            Self::Rqlite => "rqlite",
            Self::LiteFs => "litefs",
            Self::HttpVfs => "httpvfs",
            Self::Mobile => "mobile",
        }
    }

    /// Returns true if the database is in WAL mode. The log itself is empty, so there is no file of it.
    pub const fn is_wal(self) -> bool {
        matches!(self, Self::Turso)
    }

    pub(super) const fn layout(self) -> Layout {
        match self {
            Self::HttpVfs => Layout::Remote,
            Self::Turso | Self::Rqlite | Self::LiteFs | Self::Mobile => Layout::Local,
        }
    }

    /// The page size in bytes, and the reason for it.
    const fn page_bytes_rule(self) -> Option<(u32, &'static str)> {
        match self {
            Self::Turso => Some((4096, "Turso refuses other pages")),
            Self::HttpVfs => Some((1024, "its reader fetches single pages of that size")),
            Self::Rqlite | Self::LiteFs | Self::Mobile => None,
        }
    }

    /// The page size in bytes, if the preset has one.
    pub(super) fn page_bytes(self) -> Option<u32> {
        self.page_bytes_rule().map(|(bytes, _)| bytes)
    }

    /// Refuses settings that contradict the preset: page size in bytes and order, if they are given, and
    /// whether the table is STRICT.
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse); nothing was read or written.
    pub(super) fn check(
        self,
        page_bytes: Option<u32>,
        layout: Option<Layout>,
        strict: bool,
    ) -> Result<()> {
        let name = self.name();
        if let (Some((bytes, why)), Some(given)) = (self.page_bytes_rule(), page_bytes)
            && given != bytes
        {
            return Err(Error::misuse(format!(
                "the preset {name} has pages of {bytes} bytes, not of {given}: {why}"
            ))
            .to_do("leave out ⟦page_size⟧, or ⟦preset⟧"));
        }
        if layout.is_some_and(|given| given != self.layout()) {
            return Err(Error::misuse(format!("the preset {name} has its own order of pages"))
                .to_do("leave out ⟦layout⟧, or ⟦preset⟧"));
        }
        if strict && self == Self::Mobile {
            return Err(Error::misuse(format!(
                "the preset {name} has no STRICT tables: SQLite has them since 3.37, and Android \
                 before version 14 has an older one, which cannot open such a file"
            ))
            .to_do("leave out ⟦strict⟧, or ⟦preset⟧"));
        }
        Ok(())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{name}' is no preset: choose one of {names}")
        })
    }
}
