//! `_leafpress`, the native module of the Python package: thin functions and classes over the
//! library. The package's Python files (`python/leafpress`) are its public interface.
//!
//! | module | is |
//! |---|---|
//! | `arrow` | record batches of other libraries |
//! | `ending` | the end of the program, while threads are inside calls |
//! | `errors` | errors of the library as Python's exceptions |
//! | `json` | answers of the library as JSON |
//! | `spelling` | options in advice, as keywords of Python |
//! | `values` | values of Python as SQLite's, and back |
//! | `bridge` | futures of Rust for an event loop of asyncio |
//! | `load` | files, streams, frames and rows into a table |
//! | `writer` | the Writer |
//! | `queue` | durable jobs |
//! | `transaction` | a transaction whose statements come one by one |
//! | `shards` | shards: parts by tasks of Spark, Ray and Dask, and a reader |
//! | `command` | the command `leafpress` |
//!
//! Must never: hold the interpreter while it waits or presses, or panic whatever the objects.

use pyo3::prelude::*;

mod arrow;
mod bridge;
mod command;
mod ending;
mod errors;
mod json;
mod load;
mod queue;
mod shards;
mod spelling;
mod transaction;
mod values;
mod writer;

/// The module. It keeps its own locks, so free-threaded interpreters need none for it.
#[pymodule(gil_used = false)]
mod _leafpress {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arrow::arrow_columns;
    #[pymodule_export]
    use crate::bridge::{Loop, Task};
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::ending::end_of_program;
    #[pymodule_export]
    use crate::load::{is_other_than_csv, load};
    #[pymodule_export]
    use crate::queue::{NativeFeed, NativeQueue};
    #[pymodule_export]
    use crate::shards::{
        NativeRun, NativeShards, shards_build, shards_check, shards_routing, shards_sample,
        shards_scatter,
    };
    #[pymodule_export]
    use crate::transaction::NativeTransaction;
    #[pymodule_export]
    use crate::writer::cluster::cluster_shown;
    #[pymodule_export]
    use crate::writer::{
        NativeParameters, NativeReader, NativeRows, NativeTicket, NativeWriter, StopRead,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::start();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Sets up what holds for the whole process: locks that belong to descriptors, so that another
/// copy of SQLite in it (Python's own) drops none of them, and the words of advice.
fn start() {
    // What is refused leaves SQLite as it is.
    let _ = leafpress::vfs::locks::install();
    leafpress::spell_options(spelling::as_keyword);
}
