//! The pass that encodes: turns good rows of a CSV input into records, and passes them to the
//! build.

use std::sync::atomic::{AtomicU64, Ordering};

use leafpress_format::{FormatError, PageRange, PreparedRow, PreparedRows};

use super::pass::{BlockRows, Scanned};
use crate::cpu::with_wide_instructions;
use crate::input::csv::RecordSpan;
use crate::load::passes::frame::{Halt, Rows, Work};
use crate::load::passes::rejects::with_encoding;
use crate::load::tree::{AddHalt, Build, Encoder, Joined};
use crate::load::values::fields::{FieldRule, Misfit, RowRules, Scratch, Stripe, Written, shown};
use crate::schema::{RealForms, RealRule, Witness, kept_real, marks};

/// Number of blocks whose values are not prepared after one whose rows were not worth it.
const BLOCKS_NOT_PREPARED: u32 = 32;

/// Settings of the pass.
pub struct Press<'p, 'b> {
    pub rules: &'p RowRules,
    pub build: &'b Build<'b>,
    /// Index of the input, from 0.
    pub input: usize,
    /// For each column, the number of rows before the first block with a value that changes its
    /// form. Later blocks need not search theirs.
    pub changed_before: Vec<AtomicU64>,
}

/// Result of a block: its rows, and the evidence for REAL columns.
pub struct PressedBlock<'b> {
    encoder: Encoder<'b>,
    forms: Vec<RealForms>,
    /// First value of a column that changes its form, with its number.
    changed: Vec<(usize, Witness, f64)>,
    scratch: Scratch,
    /// Number of next blocks whose values are not prepared.
    blocks_to_skip: u32,
}

/// State of the table so far.
pub struct PressedTable {
    pub joined: Joined,
    forms: Vec<RealForms>,
    changed: Vec<Option<(Witness, f64)>>,
}

impl PressedTable {
    pub fn new(joined: Joined, columns: usize) -> Self {
        let forms = vec![RealForms::default(); columns];
        Self { joined, forms, changed: vec![None; columns] }
    }

    /// For each column, the limit for blocks of the next input: none for columns that have a
    /// changed value already.
    pub fn changed_before(&self) -> Vec<AtomicU64> {
        let known = self.changed.iter().map(|known| if known.is_some() { 0 } else { u64::MAX });
        known.map(AtomicU64::new).collect()
    }

    /// Returns true if a column has whole numbers only, written in several ways: a survey must
    /// decide whether it may be REAL.
    pub fn has_mixed_whole(&self, rules: &[FieldRule]) -> bool {
        let columns = self.forms.iter().zip(rules);
        let mut reals = columns.filter(|(_, rule)| **rule == FieldRule::Real);
        reals.any(|(forms, _)| forms.is_mixed_whole())
    }

    /// Number of a column's values that change their form, with the first of them and its number.
    pub fn changed(&self, column: usize) -> Option<(u64, &Witness, f64)> {
        let (witness, number) = self.changed[column].as_ref()?;
        Some((self.forms[column].changed(), witness, *number))
    }
}

impl<'b> Work<Scanned> for Press<'_, 'b> {
    type Made = PressedBlock<'b>;
    type Joined = PressedTable;
    type Ticket = Option<PageRange>;

    fn start(&self) -> PressedBlock<'b> {
        PressedBlock {
            encoder: Encoder::new(self.build),
            forms: vec![RealForms::default(); self.rules.rules.len()],
            changed: Vec::new(),
            scratch: Scratch::new(),
            blocks_to_skip: 0,
        }
    }

    fn rows(&self, rows: &Rows<'_, Scanned>, made: &mut PressedBlock<'b>) -> Result<(), Halt> {
        let rows = &BlockRows::of(rows);
        made.encoder.clear();
        made.forms.fill(RealForms::default());
        made.changed.clear();
        let prepares = self.rules.prepares() && made.blocks_to_skip == 0;
        made.blocks_to_skip = made.blocks_to_skip.saturating_sub(1);
        // Each way is a copy of the loop over rows: one loop for all would not have enough registers.
        match (self.rules.is_straight(), made.encoder.writes_leaves(), prepares) {
            (false, ..) => self.each_row(
                rows,
                made,
                #[inline(always)]
                |row, _, made| self.encode::<false>(row, made),
            ),
            (true, true, false) => self.each_row(
                rows,
                made,
                #[inline(always)]
                |row, next_rowid, made| self.press_by_rules(row, next_rowid, made),
            ),
            (true, false, false) => self.each_row(
                rows,
                made,
                #[inline(always)]
                |row, _, made| self.encode::<true>(row, made),
            ),
            (true, true, true) => self.each_prepared_row(
                rows,
                made,
                #[inline(always)]
                |row, next_rowid, made| self.press(row, next_rowid, made),
            ),
            (true, false, true) => self.each_prepared_row(
                rows,
                made,
                #[inline(always)]
                |row, _, made| self.encode::<true>(row, made),
            ),
        }?;
        made.encoder.close();
        self.find_changed(rows, made);
        Ok(())
    }

    fn join(
        &self,
        made: &mut PressedBlock<'b>,
        table: &mut PressedTable,
    ) -> Result<Option<PageRange>, Halt> {
        let forms = table.forms.iter_mut().zip(&made.forms);
        for ((so_far, forms), rule) in forms.zip(&self.rules.rules) {
            if !so_far.merge(*forms) && *rule == FieldRule::ExactReal {
                return Err(Halt::Refuted);
            }
        }
        for (column, witness, number) in made.changed.drain(..) {
            table.changed[column].get_or_insert((witness, number));
        }
        Ok(self.build.join(&mut made.encoder, &mut table.joined)?)
    }

    fn finish(&self, range: Option<PageRange>, made: &mut PressedBlock<'b>) -> Result<(), Halt> {
        Ok(self.build.write(range, &mut made.encoder)?)
    }

    fn end(&self, made: PressedBlock<'b>) -> Result<(), Halt> {
        Ok(made.encoder.end()?)
    }
}

/// One row of a block.
struct Row<'r, 'i> {
    bytes: &'r [u8],
    span: &'r RecordSpan<'i>,
    is_utf8: bool,
    sequence: u64,
    /// Its values, as far as they are prepared.
    prepared: PreparedRow<'r>,
}

/// Reason why a row ended the block.
enum Stop {
    Bad(Misfit),
    Halt(Halt),
}

impl From<Misfit> for Stop {
    fn from(misfit: Misfit) -> Self {
        Self::Bad(misfit)
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// The end of a pass at a row.
#[cold]
fn stopped(stop: Stop, rows: &BlockRows<'_>, span: &RecordSpan<'_>) -> Halt {
    match stop {
        Stop::Bad(misfit) => {
            let error = rows.bad_row(misfit, span, rows.start()).into();
            Halt::Failed(with_encoding(error, rows.block.data()))
        }
        Stop::Halt(halt) => halt,
    }
}

/// Reason why a row was not pressed.
#[cold]
fn not_pressed(row: &Row<'_, '_>, error: &FormatError) -> Stop {
    match error {
        FormatError::NotAscending { .. } => Halt::Unsorted.into(),
        error => Misfit { at: row.span.start, reason: error.to_string() }.into(),
    }
}

impl<'b> Press<'_, 'b> {
    /// Finds the first value of each column that changes its form, if no earlier block has one. The
    /// hot loop only counts such values.
    fn find_changed(&self, rows: &BlockRows<'_>, made: &mut PressedBlock<'b>) {
        for column in 0..made.forms.len() {
            let is_real = self.rules.rules[column] == FieldRule::Real;
            let first = &self.changed_before[column];
            if !is_real
                || made.forms[column].changed() == 0
                || first.load(Ordering::Relaxed) < rows.before
            {
                continue;
            }
            first.fetch_min(rows.before, Ordering::Relaxed);
            if let Some((witness, number)) = self.first_changed(rows, column) {
                made.changed.push((column, witness, number));
            }
        }
    }

    #[cold]
    fn first_changed(&self, rows: &BlockRows<'_>, column: usize) -> Option<(Witness, f64)> {
        let field = self.rules.field_of(column)?;
        let (mut value, mut unescaped) = (Vec::new(), Vec::new());
        rows.records().find_map(|span| {
            let scratch = (&mut value, &mut unescaped);
            let found = self.rules.field_at(rows.bytes, &span, field, scratch);
            if found.is_empty() || self.rules.is_null_marker(found) {
                return None;
            }
            let real = kept_real(found.source, found.start, found.end, 0, RealRule::Value)?;
            let witness = || Witness {
                input: self.input,
                line: rows.line(span.start),
                value: shown(found.bytes()),
            };
            (real.marks & marks::CHANGED != 0).then(|| (witness(), real.value))
        })
    }

    /// Calls `take` for each row of a block, with the rowid after the one before.
    #[inline(never)]
    fn each_row(
        &self,
        rows: &BlockRows<'_>,
        made: &mut PressedBlock<'b>,
        take: impl Fn(&Row<'_, '_>, i64, &mut PressedBlock<'b>) -> Result<i64, Stop>,
    ) -> Result<(), Halt> {
        with_wide_instructions(
            #[inline(always)]
            || {
                let is_utf8 = self.rules.is_text(rows.block.data());
                let (mut next_rowid, mut sequence) = (rows.before as i64 + 1, rows.before);
                for span in rows.records() {
                    let prepared = PreparedRow::NONE;
                    let row = Row { bytes: rows.bytes, span: &span, is_utf8, sequence, prepared };
                    match take(&row, next_rowid, made) {
                        Ok(rowid) => next_rowid = rowid.wrapping_add(1),
                        Err(stop) => return Err(stopped(stop, rows, &span)),
                    }
                    // `zip` is not inlined here: a tenth of a load.
                    sequence += 1;
                }
                Ok(())
            },
        )
    }

    /// Calls `take` for each row of a block as [`each_row`](Self::each_row) does, after the values of
    /// some rows were prepared.
    #[inline(never)]
    fn each_prepared_row(
        &self,
        rows: &BlockRows<'_>,
        made: &mut PressedBlock<'b>,
        take: impl Fn(&Row<'_, '_>, i64, &mut PressedBlock<'b>) -> Result<i64, Stop>,
    ) -> Result<(), Halt> {
        with_wide_instructions(
            #[inline(always)]
            || self.each_prepared_row_inlined(rows, made, take),
        )
    }

    #[inline(always)]
    fn each_prepared_row_inlined(
        &self,
        rows: &BlockRows<'_>,
        made: &mut PressedBlock<'b>,
        take: impl Fn(&Row<'_, '_>, i64, &mut PressedBlock<'b>) -> Result<i64, Stop>,
    ) -> Result<(), Halt> {
        let is_utf8 = self.rules.is_text(rows.block.data());
        let (mut next_rowid, mut sequence) = (rows.before as i64 + 1, rows.before);
        let mut stripe = Stripe::new(self.rules);
        let (mut records, mut starts) = (rows.records(), [0; PreparedRows::ROWS_MAX]);
        loop {
            let starts = &mut starts[..stripe.rows_max];
            let prepared = records.take_stripe(self.rules.rules.len().max(1), starts);
            self.rules.prepare(rows.bytes, &prepared, &mut made.forms, &mut stripe);
            if sequence == rows.before && stripe.is_in_vain(prepared.rows()) {
                made.blocks_to_skip = BLOCKS_NOT_PREPARED;
            }
            // A row that has another number of fields, or may follow a bad one, comes alone.
            let alone = if prepared.rows() == 0 { records.next() } else { None };
            let count = prepared.rows() + usize::from(alone.is_some());
            if count == 0 {
                return Ok(());
            }
            let mut place = 0;
            while place < count {
                let (span, values) = match alone {
                    Some(span) => (span, PreparedRow::NONE),
                    None => (prepared.record(place), stripe.row(place)),
                };
                let row =
                    Row { bytes: rows.bytes, span: &span, is_utf8, sequence, prepared: values };
                match take(&row, next_rowid, made) {
                    Ok(rowid) => next_rowid = rowid.wrapping_add(1),
                    Err(stop) => return Err(stopped(stop, rows, &span)),
                }
                sequence += 1;
                place += 1;
            }
        }
    }

    /// Presses one row into a leaf; returns its rowid.
    #[inline(always)]
    fn press(
        &self,
        row: &Row<'_, '_>,
        next_rowid: i64,
        made: &mut PressedBlock<'b>,
    ) -> Result<i64, Stop> {
        if !row.prepared.is_whole() {
            return self.press_in_part(row, next_rowid, made);
        }
        let rowid = self.check(row, next_rowid, &mut made.scratch)?;
        let pushed = made.encoder.leaves.push(
            rowid,
            self.rules.record_bytes_max(row.span),
            #[inline(always)]
            |record| record.prepared_row(row.bytes, row.prepared),
        );
        pushed.map_err(|error| not_pressed(row, &error))?;
        made.encoder.index(row.sequence, rowid).map_err(Halt::from)?;
        Ok(rowid)
    }

    /// Presses a row of which not all values are prepared. By a call: it leaves the loop over rows
    /// small.
    #[inline(never)]
    fn press_in_part(
        &self,
        row: &Row<'_, '_>,
        next_rowid: i64,
        made: &mut PressedBlock<'b>,
    ) -> Result<i64, Stop> {
        with_wide_instructions(
            #[inline(always)]
            || self.press_by_rules(row, next_rowid, made),
        )
    }

    /// Presses a row, of whose values none or some are prepared.
    #[inline(always)]
    fn press_by_rules(
        &self,
        row: &Row<'_, '_>,
        next_rowid: i64,
        made: &mut PressedBlock<'b>,
    ) -> Result<i64, Stop> {
        let rowid = self.check(row, next_rowid, &mut made.scratch)?;
        let Row { bytes, span, sequence, prepared, .. } = *row;
        let PressedBlock { encoder, forms, scratch, .. } = made;
        let mut written = Written::Whole;
        let pushed = encoder.leaves.push(
            rowid,
            self.rules.record_bytes_max(span),
            #[inline(always)]
            |record| {
                let values = (sequence, prepared);
                written = self.rules.write::<true>(bytes, span, values, record, forms, scratch);
            },
        );
        self.whole(written, row, scratch)?;
        pushed.map_err(|error| not_pressed(row, &error))?;
        encoder.index(sequence, rowid).map_err(Halt::from)?;
        Ok(rowid)
    }

    /// Encodes one row and passes it on to all of its B-trees.
    #[inline(always)]
    fn encode<const STRAIGHT: bool>(
        &self,
        row: &Row<'_, '_>,
        made: &mut PressedBlock<'b>,
    ) -> Result<i64, Stop> {
        let Row { bytes, span, sequence, prepared, .. } = *row;
        let rowid = self.check(row, self.build.rowid(sequence), &mut made.scratch)?;
        let PressedBlock { encoder, forms, scratch, .. } = made;
        let mut written = Written::Whole;
        encoder.encode(
            self.rules.record_bytes_max(span),
            #[inline(always)]
            |record| {
                written = self.rules.write::<STRAIGHT>(
                    bytes,
                    span,
                    (sequence, prepared),
                    record,
                    forms,
                    scratch,
                );
            },
        );
        self.whole(written, row, scratch)?;
        encoder.add(sequence, rowid).map_err(|halt| match halt {
            AddHalt::Unsorted => Stop::Halt(Halt::Unsorted),
            AddHalt::TooLong(reason) => Stop::Bad(Misfit { at: span.start, reason }),
            AddHalt::Failed(error) => Stop::Halt(error.into()),
        })?;
        Ok(rowid)
    }

    /// Checks a row before it is written; returns its rowid.
    #[inline(always)]
    fn check(
        &self,
        row: &Row<'_, '_>,
        next_rowid: i64,
        scratch: &mut Scratch,
    ) -> Result<i64, Stop> {
        if !row.is_utf8 {
            self.rules.check_text(row.bytes, row.span)?;
        }
        self.rules.check_shape(row.span)?;
        match self.rules.primary_key {
            None => Ok(next_rowid),
            Some(_) => match self.rules.rowid(row.bytes, row.span, scratch) {
                Ok(rowid) => Ok(rowid.unwrap_or(next_rowid)),
                Err(_) if self.rules.refutes_key(row.bytes, row.span, scratch) => {
                    Err(Halt::Refuted.into())
                }
                Err(misfit) => Err(misfit.into()),
            },
        }
    }

    #[inline(always)]
    fn whole(
        &self,
        written: Written,
        row: &Row<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Stop> {
        match written {
            Written::Whole => Ok(()),
            Written::Bad => Err(self.rules.misfit_of(row.bytes, row.span, scratch).into()),
            Written::Refuted => Err(Halt::Refuted.into()),
        }
    }
}
