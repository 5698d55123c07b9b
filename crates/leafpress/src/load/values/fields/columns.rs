//! The values of some rows, prepared a column at a time before the rows are written.
//!
//! The way to the values of a column is chosen once, and a row is then written from values of one form.
//! That takes fewer instructions than row by row, of which a load's time consists.
//!
//! Must never: decide what a value means that is no plain one. Such a value is left to
//! [`RowRules::write`].

use leafpress_format::{Prepared, PreparedRow, PreparedRows};

use super::RowRules;
use super::rule::FieldRule;
use crate::cpu::with_wide_instructions;
use crate::input::csv::field::record_last_field_end;
use crate::input::csv::scan::RecordStripe;
use crate::schema::{
    ColumnType, Digits, DigitsWork, RealForms, RealRule, exact_integer_by, hinted_real,
    kept_real_anywhere, with_digits,
};

/// Way to a value of a column, decided once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// An integer, converted with its column.
    Integer,
    /// A number of a REAL column, converted with its column.
    Real,
    /// Text as it stands, unless it is empty or in quotes.
    Text,
    /// NULL, as the value is the rowid.
    Null,
    /// By the column's rule.
    ByRule,
}

impl Way {
    fn of(rule: FieldRule) -> Self {
        match rule {
            FieldRule::Integer | FieldRule::Given(ColumnType::Integer) | FieldRule::Numeric => {
                Self::Integer
            }
            FieldRule::Real | FieldRule::Given(ColumnType::Real) => Self::Real,
            FieldRule::Text | FieldRule::Given(ColumnType::Text) | FieldRule::Any => Self::Text,
            FieldRule::Rowid => Self::Null,
            FieldRule::Empty
            | FieldRule::ExactReal
            | FieldRule::GivenReal
            | FieldRule::Given(ColumnType::Blob)
            | FieldRule::Timestamp(_)
            | FieldRule::Boolean => Self::ByRule,
        }
    }
}

/// A column of some records: the bytes that these are in, they, and its index.
type Place<'p> = (&'p [u8], &'p RecordStripe<'p, 'p>, usize);

/// A field that is no plain number or text.
enum Rare {
    /// Its value stands without quotes at these offsets.
    At(usize, usize),
    Is(Prepared),
}

/// The values of some rows, where they are prepared.
#[derive(Debug)]
pub struct Stripe {
    /// Number of rows that there is room for; 0 if the rules are not for straight inputs.
    pub rows_max: usize,
    prepared: PreparedRows,
}

impl Stripe {
    /// Room for the values of as many rows as should be prepared together.
    pub fn new(rules: &RowRules) -> Self {
        let columns = rules.rules.len();
        let rows = PreparedRows::rows_together(columns);
        let rows_max = if rules.is_straight() && columns > 0 { rows } else { 0 };
        Self { rows_max, prepared: PreparedRows::new(rows_max, columns) }
    }

    /// Gives a column of the first `rows` rows one value.
    fn fill(&mut self, column: usize, rows: usize, value: Prepared) {
        self.prepared.column(column, 0..rows, |_| value);
    }

    /// The values of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> PreparedRow<'_> {
        self.prepared.row(row)
    }

    /// Returns true if so few of the first `rows` rows are prepared as a whole that it takes less
    /// time to prepare none.
    pub fn is_in_vain(&self, rows: usize) -> bool {
        self.prepared.is_in_vain(rows)
    }
}

/// A column of integers, to be prepared.
struct Integers<'w> {
    rules: &'w RowRules,
    place: Place<'w>,
    stripe: &'w mut Stripe,
}

impl DigitsWork for Integers<'_> {
    #[inline(always)]
    fn run(self, digits: impl Digits) {
        let Self { rules, place, stripe } = self;
        rules.prepare_column(
            place,
            stripe,
            #[inline(always)]
            |start, end| exact_integer_by(digits, place.0, start, end).map(Prepared::integer),
        );
    }
}

/// A column of reals, to be prepared.
struct Reals<'w> {
    rules: &'w RowRules,
    place: Place<'w>,
    forms: &'w mut RealForms,
    stripe: &'w mut Stripe,
}

impl DigitsWork for Reals<'_> {
    #[inline(always)]
    fn run(self, digits: impl Digits) {
        let Self { rules, place, forms, stripe } = self;
        let mut seen = *forms;
        let hint = seen.scale_hint();
        rules.prepare_column(
            place,
            stripe,
            #[inline(always)]
            |start, end| {
                if let Some(real) = hinted_real(digits, place.0, start, end, hint) {
                    seen.add(real);
                    return Some(Prepared::number(real.stored()));
                }
                let real = kept_real_anywhere(place.0, start, end, RealRule::Value)?;
                seen.add(real);
                Some(Prepared::number(real.stored()))
            },
        );
        *forms = seen;
    }
}

impl RowRules {
    /// Decides the way to each column's values, when all settings are known.
    pub(super) fn note_ways(&mut self) {
        let is_plain = self.dialect.escape().is_none() && self.null_markers.is_empty();
        let way = |rule: &FieldRule| if is_plain { Way::of(*rule) } else { Way::ByRule };
        self.ways = self.rules.iter().map(way).collect();
    }

    /// Returns true if rows may be prepared as a whole.
    pub fn prepares(&self) -> bool {
        self.is_straight() && !self.rules.is_empty() && !self.ways.contains(&Way::ByRule)
    }

    /// Prepares the values of some rows of a straight input.
    pub fn prepare(
        &self,
        bytes: &[u8],
        records: &RecordStripe<'_, '_>,
        forms: &mut [RealForms],
        stripe: &mut Stripe,
    ) {
        for (column, forms) in forms.iter_mut().enumerate() {
            let place = (bytes, records, column);
            match self.ways[column] {
                Way::Integer => self.prepare_integers(place, stripe),
                Way::Real => self.prepare_reals(place, forms, stripe),
                Way::Text => self.prepare_texts(place, stripe),
                Way::Null => stripe.fill(column, records.rows(), Prepared::NULL),
                Way::ByRule => stripe.fill(column, records.rows(), Prepared::OTHER),
            }
        }
    }

    // Each of these loops is a function of its own: together they would not have enough registers.

    #[inline(never)]
    fn prepare_integers(&self, place: Place<'_>, stripe: &mut Stripe) {
        with_digits(Integers { rules: self, place, stripe });
    }

    #[inline(never)]
    fn prepare_reals(&self, place: Place<'_>, forms: &mut RealForms, stripe: &mut Stripe) {
        with_digits(Reals { rules: self, place, forms, stripe });
    }

    #[inline(never)]
    fn prepare_texts(&self, place: Place<'_>, stripe: &mut Stripe) {
        with_wide_instructions(
            #[inline(always)]
            || {
                self.prepare_column(
                    place,
                    stripe,
                    #[inline(always)]
                    |start, end| {
                        let is_plain = !self.is_quote(place.0[start]);
                        is_plain.then(|| Prepared::text(start, end))
                    },
                );
            },
        );
    }

    /// Prepares the values of a column.
    #[inline(always)]
    fn prepare_column(
        &self,
        (bytes, records, column): Place<'_>,
        stripe: &mut Stripe,
        mut convert: impl FnMut(usize, usize) -> Option<Prepared>,
    ) {
        let columns = self.rules.len();
        assert!(column < columns, "column {column} of {columns}");
        let is_last = column + 1 == columns;
        let empty = self.empty(column);
        let rows = records.field_ends.chunks_exact(columns).zip(records.starts);
        stripe.prepared.column(
            column,
            rows,
            #[inline(always)]
            |(field_ends, &record_start)| {
                let mut end = field_ends[column] as usize;
                let mut start = match column {
                    0 => record_start as usize,
                    _ => field_ends[column - 1] as usize + 1,
                };
                if is_last {
                    end = record_last_field_end(bytes, start, end, self.dialect);
                }
                if start == end {
                    return empty;
                }
                // Twice at most: a value without its quotes has none at its start.
                loop {
                    if let Some(value) = convert(start, end) {
                        return value;
                    }
                    match self.rare(empty, bytes, start, end) {
                        Rare::At(bare_start, bare_end) => (start, end) = (bare_start, bare_end),
                        Rare::Is(value) => return value,
                    }
                }
            },
        );
    }

    /// Value of an empty field of a column.
    fn empty(&self, column: usize) -> Prepared {
        if self.rules[column].is_text() && !self.empty_is_null {
            Prepared::text(0, 0)
        } else if self.demands.refuses_null(column) {
            Prepared::OTHER
        } else {
            Prepared::NULL
        }
    }

    /// Value of a field that was not converted, or its place without quotes.
    #[inline(never)]
    fn rare(&self, empty: Prepared, bytes: &[u8], start: usize, end: usize) -> Rare {
        match bytes.get(start..end) {
            Some([first, inner @ .., last]) if self.is_quote(*first) && first == last => {
                if inner.is_empty() {
                    Rare::Is(empty)
                } else if memchr::memchr(*first, inner).is_none() {
                    Rare::At(start + 1, end - 1)
                } else {
                    Rare::Is(Prepared::OTHER)
                }
            }
            _ => Rare::Is(Prepared::OTHER),
        }
    }
}
