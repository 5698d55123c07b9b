//! The press pass: good rows to table leaves, leaves to the file.

use std::path::Path;

use leafpress_format::{FormatError, LeafRun, PageLayout, PageRange};

use super::fields::{FieldRule, Misfit, RowRules, Scratch, Written, check_utf8};
use super::output::Output;
use super::pages::{TablePages, refused, write_run};
use super::pass::{BlockRows, Halt, Work};
use crate::input::csv::RecordSpan;
use crate::schema::RealForms;

/// What the press needs besides the rows.
pub struct Press<'p> {
    pub file: &'p str,
    pub rules: &'p RowRules,
    pub layout: PageLayout,
    pub output: &'p Output,
    pub path: &'p Path,
}

/// A block's leaves, and what its values say about REAL columns.
pub struct PressedBlock {
    run: LeafRun,
    forms: Vec<RealForms>,
    scratch: Scratch,
}

/// The table so far.
pub struct PressedTable {
    pub pages: TablePages,
    forms: Vec<RealForms>,
}

impl PressedTable {
    pub fn new(layout: PageLayout, columns: usize) -> Self {
        Self { pages: TablePages::new(layout), forms: vec![RealForms::default(); columns] }
    }
}

impl Work for Press<'_> {
    type Made = PressedBlock;
    type Joined = PressedTable;
    type Ticket = PageRange;

    fn start(&self) -> PressedBlock {
        let columns = self.rules.rules.len();
        PressedBlock {
            run: LeafRun::new(self.layout, columns),
            forms: vec![RealForms::default(); columns],
            scratch: Scratch::new(),
        }
    }

    fn rows(&self, rows: &BlockRows<'_>, made: &mut PressedBlock) -> Result<(), Halt> {
        made.run.clear();
        made.forms.fill(RealForms::default());
        let is_utf8 = simdutf8::basic::from_utf8(rows.block.data()).is_ok();
        let mut next_rowid = rows.before as i64 + 1;
        for span in rows.records() {
            let rowid = match self.row(rows.bytes, &span, is_utf8, next_rowid, made) {
                Ok(rowid) => rowid,
                Err(Stop::Bad(misfit)) => {
                    return Err(Halt::Failed(rows.bad_row(self.file, misfit, &span).into()));
                }
                Err(Stop::Halt(halt)) => return Err(halt),
            };
            next_rowid = rowid.wrapping_add(1);
        }
        made.run.close();
        Ok(())
    }

    fn join(&self, made: &mut PressedBlock, joined: &mut PressedTable) -> Result<PageRange, Halt> {
        let forms = joined.forms.iter_mut().zip(&made.forms);
        for ((so_far, forms), rule) in forms.zip(&self.rules.rules) {
            // A column that is REAL by the caller's word may have any forms.
            if !so_far.merge(*forms) && *rule == FieldRule::Real {
                return Err(Halt::Refuted);
            }
        }
        let range = joined.pages.append(&made.run).map_err(|error| match error {
            FormatError::NotAscending { .. } => Halt::Unsorted,
            error => Halt::Failed(refused(error, self.path)),
        })?;
        joined.pages.write_waiting(self.output, self.path)?;
        Ok(range)
    }

    fn finish(&self, range: PageRange, made: &mut PressedBlock) -> Result<(), Halt> {
        write_run(&mut made.run, &range, self.layout, self.output, self.path)?;
        Ok(())
    }
}

/// Why a row ended the block.
enum Stop {
    Bad(Misfit),
    Halt(Halt),
}

impl From<Misfit> for Stop {
    fn from(misfit: Misfit) -> Self {
        Self::Bad(misfit)
    }
}

impl Press<'_> {
    /// Presses one row; returns its rowid.
    #[inline(always)]
    fn row(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        is_utf8: bool,
        next_rowid: i64,
        made: &mut PressedBlock,
    ) -> Result<i64, Stop> {
        if !is_utf8 {
            check_utf8(bytes, span)?;
        }
        self.rules.check_shape(span)?;
        let rowid = match self.rules.primary_key {
            None => next_rowid,
            Some(_) => self.rules.rowid(bytes, span, &mut made.scratch)?.unwrap_or(next_rowid),
        };
        let PressedBlock { run, forms, scratch } = made;
        let mut written = Written::Whole;
        let pushed = run.push(rowid, self.rules.record_bytes_max(span), |record| {
            written = self.rules.write(bytes, span, record, forms, scratch);
        });
        match written {
            Written::Whole => {}
            Written::Bad => return Err(Stop::Bad(self.rules.misfit_of(bytes, span, scratch))),
            Written::Refuted => return Err(Stop::Halt(Halt::Refuted)),
        }
        match pushed {
            Ok(()) => Ok(rowid),
            Err(FormatError::NotAscending { .. }) => Err(Stop::Halt(Halt::Unsorted)),
            Err(error) => Err(Stop::Bad(Misfit { at: span.start, reason: error.to_string() })),
        }
    }
}
