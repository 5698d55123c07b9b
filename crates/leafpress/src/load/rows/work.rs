//! Work of passes over typed rows: encoding, and the survey of types.

use leafpress_format::{NumberText, PageRange};

use crate::input::rows::RowBatch;
use crate::load::passes::frame::{Halt, Rows, Work};
use crate::load::tree::{AddHalt, Build, Encoder, Joined};
use crate::load::values::typed::{TypedEvidence, TypedRules, TypedWritten};

/// Work of a pass that encodes rows.
pub struct EncodeBatches<'p, 'b> {
    pub rules: &'p TypedRules,
    pub build: &'b Build<'b>,
    /// True if the type of the rowid's column was detected, so that a value that does not fit
    /// refutes it.
    pub key_is_detected: bool,
}

impl<'b> EncodeBatches<'_, 'b> {
    fn encode<B: RowBatch>(
        &self,
        rows: &Rows<'_, B>,
        row: usize,
        sequence: u64,
        (encoder, number): &mut (Encoder<'b>, NumberText),
    ) -> Result<(), Halt> {
        let bad = |reason| Halt::Failed(rows.bad_row(row, reason).into());
        let rowid = match self.rules.rowid(rows.piece, row) {
            Ok(rowid) => rowid.unwrap_or_else(|| self.build.rowid(sequence)),
            Err(_) if self.key_is_detected && !self.rules.rowid_is_null(rows.piece, row) => {
                return Err(Halt::Refuted);
            }
            Err(reason) => return Err(bad(reason)),
        };
        let mut written = TypedWritten::Whole;
        encoder.encode(self.rules.record_bytes_max(rows.piece, row), |record| {
            written = self.rules.write(rows.piece, row, sequence, record, number);
        });
        match written {
            TypedWritten::Whole => {}
            TypedWritten::Refuted => return Err(Halt::Refuted),
            TypedWritten::Bad(_) => {
                let reason = self.rules.check(rows.piece, row).err();
                return Err(bad(reason.unwrap_or_else(|| "the row is bad".to_owned())));
            }
        }
        encoder.add(sequence, rowid).map_err(|halt| match halt {
            AddHalt::Unsorted => Halt::Unsorted,
            AddHalt::TooLong(reason) => bad(reason),
            AddHalt::Failed(error) => error.into(),
        })
    }
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
        for (sequence, row) in (rows.before..).zip(rows.places()) {
            self.encode(rows, row, sequence, made)?;
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
