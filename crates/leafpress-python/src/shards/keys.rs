//! Keys of record batches: values of the routing columns, as the loader stores them.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use leafpress::load::{ArrowColumn, Value};
use leafpress::{Error, ErrorKind, Result};

/// Places of columns, by their names.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) for a column that is not there,
/// [`Unsupported`](ErrorKind::Unsupported) for a type whose values are stored in several ways.
pub fn places_of(names: &[String], schema: &Schema) -> Result<Vec<usize>> {
    names.iter().map(|name| place_of(name, schema)).collect()
}

fn place_of(name: &str, schema: &Schema) -> Result<usize> {
    let fields = schema.fields();
    let Some(place) = fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))
    else {
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        let reason = format!("there is no column {name:?}; there are {}", names.join(", "));
        return Err(Error::not_found("column", name, reason));
    };
    let data_type = fields[place].data_type();
    if !may_route(data_type) {
        return Err(Error::from(ErrorKind::Unsupported(format!(
            "column {name:?} has the type {data_type}, and rows are split by integers, reals, \
             texts, bytes, dates and times"
        )))
        .to_do("cast the column, or split by another one"));
    }
    Ok(place)
}

fn may_route(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_string()
        || data_type.is_binary()
        || matches!(
            data_type,
            DataType::Null
                | DataType::Boolean
                | DataType::Float16
                | DataType::Float32
                | DataType::Float64
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        )
}

/// Gives the key of each row of a batch.
///
/// # Errors
/// Those of `take`; [`Input`](ErrorKind::Input) for an array that is damaged, and for an unsigned
/// integer above 2⁶³, which SQLite has no integer for.
pub fn each(
    batch: &RecordBatch,
    places: &[usize],
    mut take: impl FnMut(usize, &[Value<'_>]) -> Result<()>,
) -> Result<()> {
    let schema = batch.schema_ref();
    let failed = |place: usize, reason: String| {
        let name = schema.field(place).name();
        Error::input("<batches>", format!("column {name:?}: {reason}"))
    };
    let column = |&place: &usize| {
        ArrowColumn::new(batch.column(place)).map_err(|reason| failed(place, reason))
    };
    let columns = places.iter().map(column).collect::<Result<Vec<_>>>()?;
    let mut key = Vec::with_capacity(places.len());
    for row in 0..batch.num_rows() {
        key.clear();
        for (column, &place) in columns.iter().zip(places) {
            let value = column.value(row);
            if matches!(value, Value::Text(_)) && schema.field(place).data_type().is_integer() {
                return Err(failed(place, "an integer is above 2^63 - 1".to_owned())
                    .to_do("cast the column to texts, or split by another one"));
            }
            // SQLite stores NULL for it.
            let is_nan = matches!(value, Value::Real(real) if real.is_nan());
            key.push(if is_nan { Value::Null } else { value });
        }
        take(row, &key)?;
    }
    Ok(())
}
