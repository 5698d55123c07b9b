//! Lists, structs, maps and unions as JSON, and rows as JSON for messages.
//!
//! ```text
//! list     [1,2,null]
//! struct   {"a":1,"b":"x"}
//! map      {"key":1}            keys that are no text are written as text
//! union    what its value is
//! decimal  12.50                as a number, with all its digits
//! ```
//! and the others as `as_json.rs` has them.
//!
//! Must never: write what is not JSON.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;

use super::column::{Column, Detailed, Written};
use crate::input::as_json::{separated, write_text, write_value};

/// An array as a tree, its children downcast once and for all.
struct Node {
    nulls: Option<NullBuffer>,
    shape: Shape,
}

enum Shape {
    Scalar(Column),
    List(Ranges, Box<Node>),
    Struct(Vec<(String, Node)>),
    Map(Ranges, Box<Node>, Box<Node>),
    Union(Vec<Choice>, Vec<Node>),
}

/// For each row, the start and the end of its elements in the child array.
type Ranges = Vec<(usize, usize)>;

/// The child of a union that holds a row's value, and the value's row there.
struct Choice {
    child: usize,
    row: usize,
}

/// Writes each row of a nested array that is not NULL as JSON.
///
/// # Errors
/// Fails if the array is of no type that we know, or contradicts itself.
pub(super) fn write(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Written, String> {
    // What is not nested would come back here for ever.
    if !is_nested(array.data_type()) {
        return Err(format!("values of type {} cannot be loaded", array.data_type()));
    }
    let node = Node::new(array)?;
    Ok(Written::each(array.len(), nulls, |row, out| node.write(row, out)))
}

/// Returns true if values of the type are written as JSON.
fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested()
        && !matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
}

impl Node {
    fn new(array: &ArrayRef) -> Result<Self, String> {
        let shape = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                list(ranges_between(lists.offsets()), lists.values())?
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                list(ranges_between(lists.offsets()), lists.values())?
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                list(ranges_from(lists.offsets(), lists.sizes()), lists.values())?
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                list(ranges_from(lists.offsets(), lists.sizes()), lists.values())?
            }
            DataType::FixedSizeList(_, length) => {
                let length = length.as_usize();
                let ranges = (0..array.len()).map(|row| (row * length, (row + 1) * length));
                list(ranges.collect(), array.as_fixed_size_list().values())?
            }
            DataType::Struct(fields) => {
                let children = fields.iter().zip(array.as_struct().columns());
                let named =
                    children.map(|(field, child)| Ok((field.name().clone(), Self::new(child)?)));
                Shape::Struct(named.collect::<Result<_, String>>()?)
            }
            DataType::Map(..) => {
                let maps = array.as_map();
                let ranges = within(ranges_between(maps.offsets()), maps.keys().len())?;
                let (keys, values) = (Self::new(maps.keys())?, Self::new(maps.values())?);
                Shape::Map(ranges, Box::new(keys), Box::new(values))
            }
            DataType::Union(..) => union(array)?,
            _ => Shape::Scalar(Column::new(array)?),
        };
        Ok(Self { nulls: array.nulls().cloned(), shape })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.shape {
            Shape::Scalar(column) => write_detailed(column.detailed(row), out),
            Shape::List(ranges, child) => {
                let (start, end) = ranges[row];
                separated(b'[', b']', start..end, out, |element, out| child.write(element, out));
            }
            Shape::Struct(children) => {
                separated(b'{', b'}', children, out, |(name, child), out| {
                    write_text(name.as_bytes(), out);
                    out.push(b':');
                    child.write(row, out);
                });
            }
            Shape::Map(ranges, keys, values) => {
                let (start, end) = ranges[row];
                separated(b'{', b'}', start..end, out, |element, out| {
                    keys.write_key(element, out);
                    out.push(b':');
                    values.write(element, out);
                });
            }
            Shape::Union(choices, children) => {
                let choice = &choices[row];
                children[choice.child].write(choice.row, out);
            }
        }
    }

    /// Keys of JSON are text: any other becomes the text of its JSON.
    fn write_key(&self, row: usize, out: &mut Vec<u8>) {
        let mut json = Vec::new();
        self.write(row, &mut json);
        if json.starts_with(b"\"") {
            out.extend_from_slice(&json);
        } else {
            write_text(&json, out);
        }
    }
}

fn list(ranges: Ranges, child: &ArrayRef) -> Result<Shape, String> {
    let ranges = within(ranges, child.len())?;
    Ok(Shape::List(ranges, Box::new(Node::new(child)?)))
}

fn ranges_between<T: ArrowNativeType>(offsets: &[T]) -> Ranges {
    offsets.windows(2).map(|pair| (pair[0].as_usize(), pair[1].as_usize())).collect()
}

fn ranges_from<T: ArrowNativeType>(offsets: &[T], sizes: &[T]) -> Ranges {
    let range = |(offset, size): (&T, &T)| {
        (offset.as_usize(), offset.as_usize().saturating_add(size.as_usize()))
    };
    offsets.iter().zip(sizes).map(range).collect()
}

/// Ranges of a damaged file may lie anywhere.
fn within(ranges: Ranges, length: usize) -> Result<Ranges, String> {
    if ranges.iter().all(|(start, end)| start <= end && *end <= length) {
        Ok(ranges)
    } else {
        Err("a list has fewer elements than its offsets say".to_owned())
    }
}

fn union(array: &ArrayRef) -> Result<Shape, String> {
    let unions = array.as_union();
    let ids: Vec<i8> = unions.fields().iter().map(|(id, _)| id).collect();
    let lengths: Vec<usize> = ids.iter().map(|id| unions.child(*id).len()).collect();
    let choose = |row| {
        let child = ids.iter().position(|id| *id == unions.type_id(row))?;
        let choice = Choice { child, row: unions.value_offset(row) };
        (choice.row < lengths[child]).then_some(choice)
    };
    let choices = (0..array.len()).map(choose).collect::<Option<Vec<_>>>();
    let choices = choices.ok_or("a union chooses a value that is not there")?;
    let children = ids.iter().map(|id| Node::new(unions.child(*id)));
    Ok(Shape::Union(choices, children.collect::<Result<_, String>>()?))
}

/// Writes a row as a JSON object.
pub(super) fn write_row(names: &[String], columns: &[Column], row: usize, out: &mut Vec<u8>) {
    separated(b'{', b'}', names.iter().zip(columns), out, |(name, column), out| {
        write_text(name.as_bytes(), out);
        out.push(b':');
        write_detailed(column.detailed(row), out);
    });
}

fn write_detailed(value: Detailed<'_>, out: &mut Vec<u8>) {
    match value {
        Detailed::Boolean(is_true) => {
            out.extend_from_slice(if is_true { b"true" } else { b"false" });
        }
        Detailed::Number(json) | Detailed::Json(json) => out.extend_from_slice(json),
        Detailed::Plain(value) => write_value(value, out),
    }
}
