//! Types of other programs that Arrow has no type for, such as BIGNUM of DuckDB.
//!
//! Arrow has them as `arrow.opaque`: a name, and values as the program keeps them. Texts can be read;
//! bytes would become BLOBs that nothing can read.
//!
//! Must never: refuse a type of which the values are numbers or texts of Arrow.

use arrow_schema::{DataType, Field, Schema};

const EXTENSION: &str = "ARROW:extension:name";
const OPAQUE: &str = "arrow.opaque";
const METADATA: &str = "ARROW:extension:metadata";

/// Refuses columns that hold such bytes.
///
/// # Errors
/// The reason, with the column.
pub fn refuse(schema: &Schema) -> Result<(), String> {
    for column in schema.fields() {
        if let Some(found) = opaque_in(column) {
            let name = column.name();
            let named = type_name(found).map_or_else(String::new, |of| format!(" {of}"));
            return Err(format!(
                "column {name:?} is of the type{named} of another program, which Arrow holds as bytes that \
                 only this program can read\nto do: cast it to text or to a number there"
            ));
        }
    }
    Ok(())
}

/// The field of such a type in a column, which may be nested.
fn opaque_in(field: &Field) -> Option<&Field> {
    if field.metadata().get(EXTENSION).is_some_and(|name| name == OPAQUE) && is_bytes(field) {
        return Some(field);
    }
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().find_map(|field| opaque_in(field)),
        DataType::Union(fields, _) => fields.iter().find_map(|(_, field)| opaque_in(field)),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => opaque_in(field),
        _ => None,
    }
}

fn is_bytes(field: &Field) -> bool {
    matches!(
        field.data_type(),
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

fn type_name(field: &Field) -> Option<String> {
    let metadata = serde_json::from_str(field.metadata().get(METADATA)?).ok();
    let metadata: serde_json::Value = metadata?;
    metadata.get("type_name")?.as_str().map(str::to_owned)
}
