//! Work of passes over typed rows: encoding, and the survey of types.

use leafpress_format::{FormatError, NumberText, PageRange, PreparedRow};

use crate::cpu::with_wide_instructions;
use crate::input::rows::RowBatch;
use crate::load::passes::frame::{Halt, Rows, Work};
use crate::load::tree::{AddHalt, Build, Encoder, Joined};
use crate::load::values::typed::{TypedEvidence, TypedRules, TypedStripe, TypedWritten};

/// Work of a pass that encodes rows.
pub struct EncodeBatches<'p, 'b> {
    pub rules: &'p TypedRules,
    pub build: &'b Build<'b>,
}

impl<'b> EncodeBatches<'_, 'b> {
    /// Calls `take` for each row, with its sequence, and with its values if they are prepared.
    #[inline(always)]
    fn each_row<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        mut take: impl FnMut(Place, Option<Whole<'_>>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut stripe = TypedStripe::new(self.rules, rows.piece);
        with_wide_instructions(
            #[inline(always)]
            || {
                for (sequence, row) in (rows.before..).zip(rows.places()) {
                    take(Place { sequence, row }, stripe.whole_row(row))?;
                }
                Ok(())
            },
        )
    }

    /// Presses one row into a leaf.
    #[inline(always)]
    fn press<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        place: Place,
        values: Option<Whole<'_>>,
        made: &mut (Encoder<'b>, NumberText),
    ) -> Result<(), Halt> {
        let Some((texts, values)) = values else { return self.press_by_rules(rows, place, made) };
        let rowid = self.rowid(rows, place)?;
        let bytes_max = self.rules.record_bytes_max(rows.piece, place.row);
        let pushed = made.0.leaves.push(
            rowid,
            bytes_max,
            #[inline(always)]
            |record| record.prepared_row_in(texts, values),
        );
        pushed.map_err(|error| not_pressed(rows, place, &error))?;
        Ok(made.0.index(place.sequence, rowid)?)
    }

    /// Presses a row of which not all values are prepared. By a call: it leaves the loop over rows
    /// small.
    #[inline(never)]
    fn press_by_rules<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        place: Place,
        (encoder, number): &mut (Encoder<'b>, NumberText),
    ) -> Result<(), Halt> {
        let rowid = self.rowid(rows, place)?;
        let Place { sequence, row } = place;
        let mut written = TypedWritten::Whole;
        let pushed = encoder.leaves.push(
            rowid,
            self.rules.record_bytes_max(rows.piece, row),
            #[inline(always)]
            |record| written = self.rules.write(rows.piece, row, sequence, record, number),
        );
        self.whole(written, rows, row)?;
        pushed.map_err(|error| not_pressed(rows, place, &error))?;
        Ok(encoder.index(sequence, rowid)?)
    }

    /// Encodes one row and passes it on to all of its B-trees.
    fn encode<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        place: Place,
        values: Option<Whole<'_>>,
        (encoder, number): &mut (Encoder<'b>, NumberText),
    ) -> Result<(), Halt> {
        let rowid = self.rowid(rows, place)?;
        let Place { sequence, row } = place;
        let mut written = TypedWritten::Whole;
        encoder.encode(self.rules.record_bytes_max(rows.piece, row), |record| match values {
            Some((texts, values)) => record.prepared_row_in(texts, values),
            None => written = self.rules.write(rows.piece, row, sequence, record, number),
        });
        self.whole(written, rows, row)?;
        encoder.add(sequence, rowid).map_err(|halt| match halt {
            AddHalt::Unsorted => Halt::Unsorted,
            AddHalt::TooLong(reason) => bad(rows, row, reason),
            AddHalt::Failed(error) => error.into(),
        })
    }

    #[inline(always)]
    fn rowid<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        Place { sequence, row }: Place,
    ) -> Result<i64, Halt> {
        match self.rules.rowid(rows.piece, row) {
            Ok(rowid) => Ok(rowid.unwrap_or_else(|| self.build.rowid(sequence))),
            Err(_) if self.rules.refutes_key(rows.piece, row) => Err(Halt::Refuted),
            Err(reason) => Err(bad(rows, row, reason)),
        }
    }

    #[inline(always)]
    fn whole<B: RowBatch>(
        &self,
        written: TypedWritten,
        rows: &Rows<'_, B>,
        row: usize,
    ) -> Result<(), Halt> {
        match written {
            TypedWritten::Whole => Ok(()),
            TypedWritten::Refuted => Err(Halt::Refuted),
            TypedWritten::Bad(_) => {
                let reason = self.rules.check(rows.piece, row).err();
                Err(bad(rows, row, reason.unwrap_or_else(|| "the row is bad".to_owned())))
            }
        }
    }
}

/// Place of a row in its batch, and its ordinal among the good rows of all.
#[derive(Clone, Copy)]
struct Place {
    sequence: u64,
    row: usize,
}

/// All values of a row, prepared, and the buffers with its texts.
type Whole<'w> = (&'w [&'w [u8]], PreparedRow<'w>);

/// Halt for a row that was not pressed.
#[cold]
fn not_pressed<B: RowBatch>(rows: &Rows<'_, B>, place: Place, error: &FormatError) -> Halt {
    match error {
        FormatError::NotAscending { .. } => Halt::Unsorted,
        error => bad(rows, place.row, error.to_string()),
    }
}

/// Halt for a row that cannot be stored.
#[cold]
fn bad<B: RowBatch>(rows: &Rows<'_, B>, row: usize, reason: String) -> Halt {
    Halt::Failed(rows.bad_row(row, reason).into())
}

impl<'b, B: RowBatch> Work<B> for EncodeBatches<'_, 'b> {
    type Made = (Encoder<'b>, NumberText);
    type Joined = Joined;
    type Ticket = Option<PageRange>;

    fn start(&self) -> Self::Made {
        (Encoder::new(self.build), NumberText::new())
    }

    fn rows(&self, rows: &Rows<'_, B>, made: &mut Self::Made) -> Result<(), Halt> {
        made.0.clear();
        // With both ways in one loop, the record would not be kept in registers.
        if made.0.writes_leaves() {
            self.each_row(
                rows,
                #[inline(always)]
                |place, values| self.press(rows, place, values, made),
            )?;
        } else {
            self.each_row(rows, |place, values| self.encode(rows, place, values, made))?;
        }
        made.0.close();
        Ok(())
    }

    fn join(&self, made: &mut Self::Made, joined: &mut Joined) -> Result<Option<PageRange>, Halt> {
        Ok(self.build.join(&mut made.0, joined)?)
    }

    fn finish(&self, range: Option<PageRange>, made: &mut Self::Made) -> Result<(), Halt> {
        Ok(self.build.write(range, &mut made.0)?)
    }

    fn end(&self, made: Self::Made) -> Result<(), Halt> {
        Ok(made.0.end()?)
    }
}

/// Work of a pass that reads the values of columns whose type is open.
pub struct SurveyBatches<'p> {
    pub rules: &'p TypedRules,
    /// Index of the input, from 0.
    pub input: usize,
}

impl SurveyBatches<'_> {
    /// The evidence of a single batch.
    pub fn sample<B: RowBatch>(&self, batch: &B) -> Vec<TypedEvidence> {
        let mut evidence = vec![TypedEvidence::default(); self.rules.rules().len()];
        for row in 0..batch.rows() {
            if self.rules.check(batch, row).is_ok() {
                self.rules.observe((self.input, batch, row), &mut evidence);
            }
        }
        evidence
    }
}

impl<B: RowBatch> Work<B> for SurveyBatches<'_> {
    type Made = Vec<TypedEvidence>;
    type Joined = Vec<TypedEvidence>;
    type Ticket = ();

    fn start(&self) -> Self::Made {
        Vec::new()
    }

    fn rows(&self, rows: &Rows<'_, B>, made: &mut Self::Made) -> Result<(), Halt> {
        made.clear();
        made.resize(self.rules.rules().len(), TypedEvidence::default());
        for row in rows.places() {
            self.rules.observe((self.input, rows.piece, row), made);
        }
        Ok(())
    }

    fn join(&self, made: &mut Self::Made, joined: &mut Self::Joined) -> Result<(), Halt> {
        for (so_far, evidence) in joined.iter_mut().zip(made.drain(..)) {
            so_far.merge(evidence);
        }
        Ok(())
    }
}
