//! Inputs of typed rows as batches, in the frame of passes.
//!
//! Must never: let a bad row go on when bad rows are left out.

use std::sync::Mutex;

use crate::error::{BadRow, Error, Result};
use crate::input::rows::{DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource};
use crate::load::passes::frame::{Counted, Halt, Pieces, Rows};
use crate::load::passes::rejects::{Rejects, Words, with_encoding};
use crate::load::values::typed::TypedRules;
use crate::sync::lock;

/// A batch of a source's rows.
pub type BatchOf<S> = <<S as RowSource>::Decoder as RowDecoder>::Batch;
/// A piece of a source's input, to be decoded.
pub type RawOf<S> = <<S as RowSource>::Reader as RowReader>::Raw;

/// One input of typed rows, to be read batch by batch.
pub struct TypedBatches<'p, S: RowSource> {
    pub file: &'p str,
    pub rules: &'p TypedRules,
    pub decoder: S::Decoder,
    /// True if bad rows are searched before the work on the rows.
    pub screen: bool,
}

/// An input. Its first batch may have been taken for a sample.
pub struct TypedReader<S: RowSource> {
    pub first: Option<BatchOf<S>>,
    pub reader: S::Reader,
}

/// Memory of a worker.
pub struct BatchPiece<S: RowSource> {
    raw: RawOf<S>,
    /// True if the batch is decoded already, and there is no raw piece.
    is_decoded: bool,
    batch: BatchOf<S>,
    misfits: Vec<(usize, String)>,
}

impl<B: RowBatch> Rows<'_, B> {
    /// Indexes of the good rows in the batch.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let mut bad = self.bad.iter().peekable();
        (0..self.piece.rows()).filter(move |row| bad.next_if_eq(&row).is_none())
    }

    /// A row's fault, with its place and its text.
    pub fn bad_row(&self, row: usize, reason: String) -> BadRow {
        bad_row(self.piece, self.file, row, reason)
    }
}

fn bad_row<B: RowBatch>(batch: &B, file: &str, row: usize, reason: String) -> BadRow {
    BadRow {
        file: file.to_owned(),
        line: batch.line(row),
        column: 1,
        reason,
        row: batch.excerpt(row),
    }
}

impl<S: RowSource> Pieces for TypedBatches<'_, S> {
    type Reader = TypedReader<S>;
    type Piece = BatchPiece<S>;
    type Shown = BatchOf<S>;
    type Carried = ();

    fn file(&self) -> &str {
        self.file
    }

    fn piece(&self) -> BatchPiece<S> {
        BatchPiece {
            raw: RawOf::<S>::default(),
            is_decoded: false,
            batch: BatchOf::<S>::default(),
            misfits: Vec::new(),
        }
    }

    fn carried(&self) {}

    fn claim(&self, reader: &mut TypedReader<S>, piece: &mut BatchPiece<S>) -> Result<bool> {
        let first = reader.first.take();
        piece.is_decoded = first.is_some();
        match first {
            Some(first) => piece.batch = first,
            None => return reader.reader.claim(&mut piece.raw),
        }
        Ok(true)
    }

    /// Decodes the batch and finds bad rows, if they are needed before the work: to be left out, or
    /// as the first fault of a batch with several.
    fn scan(&self, piece: &mut BatchPiece<S>) -> Result<(), Halt> {
        let BatchPiece { raw, batch, misfits, .. } = piece;
        if !piece.is_decoded {
            self.decoder.decode(raw, batch).map_err(|halt| match halt {
                DecodeHalt::NewColumn => Halt::NewColumn,
                DecodeHalt::Failed(error) => Halt::Failed(error),
            })?;
        }
        misfits.clear();
        if self.screen || !batch.bad_rows().is_empty() {
            let rows = 0..batch.rows();
            misfits.extend(rows.filter_map(|row| Some((row, self.rules.check(batch, row).err()?))));
        }
        Ok(())
    }

    fn settle(
        &self,
        piece: &mut BatchPiece<S>,
        (): &mut (),
        bad: &mut Vec<usize>,
        rejects: &Mutex<Rejects>,
    ) -> Result<Counted> {
        let BatchPiece { batch, misfits, .. } = piece;
        let mut undecoded = batch.bad_rows().iter().peekable();
        let mut add_undecoded_up_to = |row: usize| {
            while let Some(next) = undecoded.next_if(|next| next.good_rows_before <= row) {
                let added = lock(rejects).add(next.bad_row.clone(), &next.original, Words::Own);
                added.map_err(|error| with_encoding(error, &next.original))?;
            }
            Ok::<_, Error>(())
        };
        for (row, reason) in misfits.drain(..) {
            add_undecoded_up_to(row)?;
            bad.push(row);
            let bad_row = bad_row(batch, self.file, row, reason);
            lock(rejects).add(bad_row, &batch.original(row), Words::Own)?;
        }
        add_undecoded_up_to(usize::MAX)?;
        let read = (batch.rows() + batch.bad_rows().len()) as u64;
        Ok(Counted { read, good: (batch.rows() - bad.len()) as u64, text_bytes: 0 })
    }

    fn shown<'p>(&self, piece: &'p BatchPiece<S>) -> &'p BatchOf<S> {
        &piece.batch
    }
}
