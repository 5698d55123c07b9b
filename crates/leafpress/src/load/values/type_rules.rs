//! Rules for a column that is declared by hand: for fields of text, and for typed values.
//!
//! Stands between the table's shape, which SQLite gives, and the rules for a load's rows.

use leafpress_format::Affinity;

use super::fields::FieldRule;
use super::typed::TypeRule;
use crate::error::{Error, Result};
use crate::input::rows::ValueKinds;
use crate::load::options::GivenType;
use crate::schema::ColumnType;
use crate::schema::shape::ShapeColumn;

impl FieldRule {
    /// The rule for fields of a column with this declaration, in a table that is STRICT or not.
    ///
    /// A field that an INTEGER or REAL column would store as another type makes a bad
    /// row, also where SQLite would store it: the caller chose the type. NUMERIC columns
    /// take anything.
    pub fn for_column(column: &ShapeColumn, strict: bool) -> Self {
        if strict && column.declared_type.eq_ignore_ascii_case("ANY") {
            return Self::Any;
        }
        match column.affinity {
            Affinity::Integer => Self::Given(ColumnType::Integer),
            Affinity::Real => Self::Given(ColumnType::Real),
            Affinity::Text => Self::Given(ColumnType::Text),
            Affinity::Numeric => Self::Numeric,
            Affinity::Blob if column.declared_type.is_empty() => Self::Any,
            Affinity::Blob => Self::Given(ColumnType::Blob),
        }
    }
}

impl From<GivenType> for FieldRule {
    fn from(given: GivenType) -> Self {
        match given {
            GivenType::Type(column_type) => Self::Given(column_type),
            GivenType::Timestamp(form) => Self::Timestamp(form),
            GivenType::Boolean => Self::Boolean,
        }
    }
}

impl FieldRule {
    /// The rule for fields of a declared column whose type the caller gave, too.
    pub fn of_given_in(given: GivenType, column: &ShapeColumn) -> Self {
        if given.keeps_reals_in(column) { Self::GivenReal } else { given.into() }
    }
}

impl GivenType {
    /// Returns true for REAL in a column that would hold an integer as one.
    fn keeps_reals_in(self, column: &ShapeColumn) -> bool {
        self == Self::Type(ColumnType::Real) && column.affinity != Affinity::Real
    }

    /// Refuses a type with which a column of this declaration would hold values that SQLite would
    /// not store there.
    pub fn refuse_unless_fits(
        self,
        column: &ShapeColumn,
        is_rowid: bool,
        strict: bool,
    ) -> Result<()> {
        let affinity = column.affinity;
        let is_loose = affinity == Affinity::Blob
            && (!strict || column.declared_type.eq_ignore_ascii_case("ANY"));
        let fits = match self {
            Self::Type(given) => {
                is_loose
                    || given.affinity() == affinity && (!is_rowid || given == ColumnType::Integer)
            }
            // The conversion would not be applied to a rowid.
            Self::Timestamp(_) | Self::Boolean if is_rowid => false,
            Self::Boolean => is_loose || matches!(affinity, Affinity::Integer | Affinity::Numeric),
            Self::Timestamp(form) if form.column_type() == ColumnType::Integer => {
                is_loose || matches!(affinity, Affinity::Integer | Affinity::Numeric)
            }
            // Such a text is no number and stays text.
            Self::Timestamp(_) => is_loose || !strict || affinity == Affinity::Text,
        };
        if fits {
            return Ok(());
        }
        let ShapeColumn { name, declared_type, .. } = column;
        Err(Error::misuse(format!("the column '{name}' is declared {declared_type}"))
            .to_do("leave out its ⟦type⟧, or change the declaration"))
    }

    /// Refuses a type whose values are converted to integers for the key of a table that is made,
    /// where it would be the rowid.
    pub fn refuse_for_rowid(self, name: &str) -> Result<()> {
        let converts = match self {
            Self::Boolean => true,
            Self::Timestamp(form) => form.column_type() == ColumnType::Integer,
            Self::Type(_) => false,
        };
        if converts {
            let reason = format!("the key '{name}' is the rowid, and has no values but integers");
            return Err(Error::misuse(reason)
                .to_do("make the table with ⟦without_rowid⟧, or leave out the key's ⟦type⟧"));
        }
        Ok(())
    }
}

impl TypeRule {
    /// Type of the column in a declaration.
    pub fn declared_type(self, strict: bool) -> &'static str {
        match self {
            Self::Integer | Self::Boolean | Self::Rowid | Self::Affinity(Affinity::Integer) => {
                "INTEGER"
            }
            Self::Real | Self::EmptyReal | Self::GivenReal | Self::Affinity(Affinity::Real) => {
                "REAL"
            }
            Self::Number | Self::Affinity(Affinity::Numeric) => "NUMERIC",
            Self::Text | Self::Empty | Self::Affinity(Affinity::Text) => "TEXT",
            Self::Blob | Self::Hex { .. } => "BLOB",
            Self::Given(column_type) => column_type.name(),
            Self::Timestamp(form) => form.column_type().name(),
            Self::Affinity(Affinity::Blob) if strict => "ANY",
            Self::Affinity(Affinity::Blob) => "",
        }
    }

    /// The rule for typed values of a column whose type the caller gave.
    pub fn of_given(given: GivenType, kinds: ValueKinds) -> Self {
        match given {
            GivenType::Type(ColumnType::Blob) => {
                Self::of_digits(kinds).unwrap_or(Self::Given(ColumnType::Blob))
            }
            GivenType::Type(column_type) => Self::Given(column_type),
            GivenType::Timestamp(form) => Self::Timestamp(form),
            GivenType::Boolean => Self::Boolean,
        }
    }

    /// The rule for typed values of a declared column whose type the caller gave, too.
    pub fn of_given_in(given: GivenType, column: &ShapeColumn, kinds: ValueKinds) -> Self {
        if given.keeps_reals_in(column) {
            return Self::GivenReal;
        }
        Self::of_given(given, kinds)
    }

    /// The rule for typed values of a column with this declaration, in a table that is STRICT or
    /// not. As for fields of text, a value that an INTEGER or REAL column stores as another
    /// type makes a bad row, also where SQLite would store it. A column that takes any value keeps
    /// the text of a field of CSV, as a load of CSV alone does.
    pub fn for_column(column: &ShapeColumn, strict: bool, kinds: ValueKinds) -> Self {
        let is_any = strict && column.declared_type.eq_ignore_ascii_case("ANY");
        match column.affinity {
            Affinity::Blob if is_any || column.declared_type.is_empty() => match kinds {
                ValueKinds::Fields => Self::Affinity(Affinity::Text),
                ValueKinds::Json | ValueKinds::All => Self::Affinity(Affinity::Blob),
            },
            Affinity::Integer => Self::Given(ColumnType::Integer),
            Affinity::Real => Self::Given(ColumnType::Real),
            Affinity::Text if strict => Self::Given(ColumnType::Text),
            Affinity::Blob => Self::of_digits(kinds).unwrap_or(if strict {
                Self::Given(ColumnType::Blob)
            } else {
                Self::Affinity(Affinity::Blob)
            }),
            affinity => Self::Affinity(affinity),
        }
    }

    /// The rule by which an input without blobs gives some: as hexadecimal digits.
    fn of_digits(kinds: ValueKinds) -> Option<Self> {
        match kinds {
            ValueKinds::Fields => Some(Self::Hex { of_numbers: true }),
            ValueKinds::Json => Some(Self::Hex { of_numbers: false }),
            ValueKinds::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(declared_type: &str, strict: bool) -> ShapeColumn {
        let is_any = strict && declared_type.eq_ignore_ascii_case("any");
        let affinity =
            if is_any { Affinity::Blob } else { Affinity::of_declared_type(declared_type) };
        ShapeColumn {
            name: "x".to_owned(),
            declared_type: declared_type.to_owned(),
            affinity,
            not_null: false,
            default: None,
            generated: false,
        }
    }

    #[test]
    fn rules_follow_the_affinity() {
        let rule = |declared_type: &str, strict| {
            FieldRule::for_column(&column(declared_type, strict), strict)
        };
        assert_eq!(rule("BIGINT", false), FieldRule::Given(ColumnType::Integer));
        assert_eq!(rule("double precision", false), FieldRule::Given(ColumnType::Real));
        assert_eq!(rule("VARCHAR(20)", false), FieldRule::Given(ColumnType::Text));
        assert_eq!(rule("DECIMAL(10,2)", false), FieldRule::Numeric);
        assert_eq!(rule("", false), FieldRule::Any);
        assert_eq!(rule("BLOB", false), FieldRule::Given(ColumnType::Blob));
        assert_eq!(rule("any", true), FieldRule::Any);
        assert_eq!(rule("ANY", false), FieldRule::Numeric);
        assert_eq!(rule("INT", true), FieldRule::Given(ColumnType::Integer));
    }

    #[test]
    fn rules_of_typed_values_do_too() {
        use ValueKinds::{All, Fields, Json};
        let rule = |declared_type: &str, strict, kinds| {
            TypeRule::for_column(&column(declared_type, strict), strict, kinds)
        };
        assert_eq!(rule("BIGINT", false, All), TypeRule::Given(ColumnType::Integer));
        assert_eq!(rule("REAL", true, All), TypeRule::Given(ColumnType::Real));
        assert_eq!(rule("TEXT", false, All), TypeRule::Affinity(Affinity::Text));
        assert_eq!(rule("TEXT", true, All), TypeRule::Given(ColumnType::Text));
        assert_eq!(rule("DECIMAL", false, Json), TypeRule::Affinity(Affinity::Numeric));
        for (declared_type, strict) in [("", false), ("ANY", true)] {
            assert_eq!(rule(declared_type, strict, Json), TypeRule::Affinity(Affinity::Blob));
            assert_eq!(rule(declared_type, strict, Fields), TypeRule::Affinity(Affinity::Text));
        }
        assert_eq!(rule("BLOB", false, All), TypeRule::Affinity(Affinity::Blob));
        assert_eq!(rule("BLOB", true, All), TypeRule::Given(ColumnType::Blob));
        for strict in [false, true] {
            assert_eq!(rule("BLOB", strict, Json), TypeRule::Hex { of_numbers: false });
            assert_eq!(rule("BLOB", strict, Fields), TypeRule::Hex { of_numbers: true });
        }
    }
}
