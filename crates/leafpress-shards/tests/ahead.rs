//! Parts that go up to a store while they are pressed.

use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leafpress::load::{Column, ColumnType, Loader, Report};
use leafpress::{ErrorKind, Result};
use leafpress_shards::{Manifest, PartBuilder, Publication, Routing, Schema, Shards};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, MultipartId, ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload,
    PutResult,
};
use tempfile::TempDir;

type Answer<T> = object_store::Result<T>;

/// Requests about pieces that a store has answered.
#[derive(Debug, Default, Clone)]
struct Requests {
    begun: usize,
    pieces: Vec<usize>,
    completed: usize,
    aborted: usize,
}

/// The uploads of a store in memory, noted.
#[derive(Debug)]
struct Pieces {
    store: Arc<InMemory>,
    requests: Mutex<Requests>,
    came: Condvar,
    /// Number of the next requests that fail: to begin, for a piece, to complete.
    failures: Mutex<[u32; 3]>,
    /// If true, another object of the same size takes the place of one that was completed.
    replaces: AtomicBool,
    /// Time for which the first piece stays under way, if any.
    first: Option<Duration>,
    /// Pieces that came while the first one was under way, with it.
    beside_first: AtomicUsize,
    is_first_over: AtomicBool,
}

impl Pieces {
    fn new() -> Arc<Self> {
        Arc::new(Self::with_first(None))
    }

    /// A store whose first piece takes so long.
    fn with_first(first: Option<Duration>) -> Self {
        let (requests, came, failures, replaces) = Default::default();
        let (beside_first, is_first_over) = Default::default();
        let store = Arc::new(InMemory::new());
        Self { store, requests, came, failures, replaces, first, beside_first, is_first_over }
    }

    fn shards(self: &Arc<Self>) -> Shards {
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.store) as _;
        let pieces: Arc<dyn MultipartStore> = Arc::clone(self) as _;
        Shards::on_store(store, Some(pieces), "memory://place", &Path::from("place"))
    }

    fn requests(&self) -> Requests {
        self.requests.lock().expect("a lock").clone()
    }

    /// Waits until so many pieces were asked for.
    fn wait_for(&self, pieces: usize) {
        let requests = self.requests.lock().expect("a lock");
        let few = |it: &mut Requests| it.pieces.len() < pieces;
        let limit = Duration::from_secs(60);
        let waited = self.came.wait_timeout_while(requests, limit, few).expect("a lock");
        assert!(!waited.1.timed_out(), "no piece went up while the part was pressed");
    }

    fn note(&self, request: usize, note: impl FnOnce(&mut Requests)) -> Answer<()> {
        note(&mut self.requests.lock().expect("a lock"));
        self.came.notify_all();
        let left = &mut self.failures.lock().expect("a lock")[request];
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(object_store::Error::Generic {
            store: "noted",
            source: "the connection was cut".into(),
        })
    }
}

#[async_trait]
impl MultipartStore for Pieces {
    async fn create_multipart(&self, at: &Path) -> Answer<MultipartId> {
        self.note(0, |it| it.begun += 1)?;
        self.store.create_multipart(at).await
    }

    async fn put_part(
        &self,
        at: &Path,
        id: &MultipartId,
        piece: usize,
        bytes: PutPayload,
    ) -> Answer<PartId> {
        if let Some(first) = self.first
            && !self.is_first_over.load(Ordering::Relaxed)
            && self.beside_first.fetch_add(1, Ordering::Relaxed) == 0
        {
            tokio::time::sleep(first).await;
            self.is_first_over.store(true, Ordering::Relaxed);
        }
        let part = self.store.put_part(at, id, piece, bytes).await?;
        self.note(1, |it| it.pieces.push(piece)).map(|()| part)
    }

    async fn complete_multipart(
        &self,
        at: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Answer<PutResult> {
        let result = self.store.complete_multipart(at, id, parts).await?;
        if self.replaces.load(Ordering::Relaxed) {
            let size = self.store.head(at).await?.size as usize;
            let checksum = (Attribute::Metadata("sha256".into()), "of another content");
            let attributes = Attributes::from_iter([checksum]);
            let options = PutOptions { attributes, ..PutOptions::default() };
            self.store.put_opts(at, vec![7; size].into(), options).await?;
        }
        self.note(2, |it| it.completed += 1).map(|()| result)
    }

    async fn abort_multipart(&self, at: &Path, id: &MultipartId) -> Answer<()> {
        self.requests.lock().expect("a lock").aborted += 1;
        self.store.abort_multipart(at, id).await
    }
}

/// Presses part 0 of a run, publishes the run, and reads all of it.
fn publish(
    to: &Shards,
    publication: &Publication,
    load: impl FnOnce(Loader) -> Result<Report>,
) -> Result<u64> {
    let builder = PartBuilder::new(to, &publication.run, 0);
    let (record, _) = builder.build(load)?;
    let schema = Schema { table: "t".to_owned(), sql: vec!["CREATE TABLE t(id)".to_owned()] };
    let manifest = Manifest::new(publication.run.clone(), schema, Routing::Rows, vec![record]);
    to.publish(publication, manifest)?;
    let verdict = to.verify(|| false)?;
    assert!(verdict.sound, "{verdict:?}");
    Ok(verdict.rows)
}

/// Loads rows of about 500 bytes.
fn load(loader: Loader, rows: i64) -> Result<Report> {
    let columns = [Column::new("id", ColumnType::Integer), Column::new("text", ColumnType::Text)];
    let rows = (0..rows).map(|id| (id, format!("{id:0490}")));
    loader.table("t").load_rows(&columns, rows)
}

/// Of 30 MB, which are four pieces.
const ROWS: i64 = 60_000;

#[test]
fn pieces_go_up_while_a_part_is_pressed_and_the_first_page_last() {
    let store = Pieces::new();
    let to = store.shards();
    let rows = publish(&to, &to.begin().expect("a run"), |loader| {
        let report = load(loader, ROWS);
        store.wait_for(1);
        report
    });
    assert_eq!(rows.expect("it is published"), ROWS as u64);
    let mut requests = store.requests();
    assert_eq!((requests.begun, requests.completed, requests.aborted), (1, 1, 0), "{requests:?}");
    assert_eq!(requests.pieces.pop(), Some(0), "{requests:?}");
    requests.pieces.sort_unstable();
    assert_eq!(requests.pieces, [1, 2, 3], "each once");

    // A small part is one request.
    let small = publish(&to, &to.begin().expect("a run"), |loader| load(loader, 100));
    assert_eq!((small.expect("it is published"), store.requests().begun), (100, 1));
}

/// A slow network carries one piece within the time of a request, and not those of all parts.
#[test]
fn one_piece_of_all_parts_goes_first() {
    let store = Arc::new(Pieces::with_first(Some(Duration::from_millis(500))));
    let to = store.shards();
    let publication = to.begin().expect("a run");
    std::thread::scope(|scope| {
        for part in 0..3 {
            let builder = PartBuilder::new(&to, &publication.run, part);
            scope.spawn(move || builder.build(|loader| load(loader, ROWS)).expect("a part"));
        }
    });
    assert_eq!(store.requests().completed, 3);
    assert_eq!(store.beside_first.load(Ordering::Relaxed), 1);
}

/// The first guess of the types is refuted by the last row, so all rows are pressed once more.
#[test]
fn pieces_that_were_pressed_once_more_go_up_once_more() {
    let store = Pieces::new();
    let to = store.shards();
    let folder = TempDir::new().expect("a folder");
    let input = folder.path().join("t.csv");
    let mut text = "id,text,late\n".to_owned();
    for id in 0..ROWS {
        let _ = writeln!(text, "{id},{id:0490},7");
    }
    text.push_str("1,a,b\n");
    fs::write(&input, text).expect("an input");
    let rows = publish(&to, &to.begin().expect("a run"), |loader| {
        let report = loader.table("t").threads(1).load_file(&input);
        store.wait_for(1);
        report
    });
    assert_eq!(rows.expect("it is published"), ROWS as u64 + 1);
    let requests = store.requests();
    assert!(requests.pieces.len() > 4, "no piece had to be sent again: {requests:?}");
    assert_eq!((requests.begun, requests.completed, requests.aborted), (1, 1, 0), "{requests:?}");
}

#[test]
fn a_piece_that_failed_goes_up_again_and_a_lost_answer_is_found_out() {
    // An upload that does not begin, a piece, and the answer to the last request.
    for failures in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
        let store = Pieces::new();
        *store.failures.lock().expect("a lock") = failures;
        let to = store.shards();
        let rows = publish(&to, &to.begin().expect("a run"), |loader| load(loader, ROWS));
        assert_eq!(rows.expect("it is published"), ROWS as u64, "{failures:?}");
        let requests = store.requests();
        assert_eq!(requests.completed, 1 - failures[0] as usize, "{failures:?} {requests:?}");
        // Nothing is left of an upload whose end was not told.
        assert_eq!(requests.aborted, failures[2] as usize, "{failures:?} {requests:?}");
    }
}

#[test]
fn an_upload_is_removed_if_the_part_is_not_pressed_or_the_caller_stops() {
    let store = Pieces::new();
    let to = store.shards();
    let publication = to.begin().expect("a run");
    let error = publish(&to, &publication, |loader| {
        load(loader, ROWS)?;
        store.wait_for(1);
        Err(ErrorKind::Cancelled.into())
    });
    assert!(matches!(error.expect_err("no part").kind(), ErrorKind::Cancelled));
    assert_eq!((store.requests().begun, store.requests().aborted), (1, 1));

    let token = leafpress::load::CancelToken::new();
    let builder = PartBuilder::new(&to, &publication.run, 0).cancel(token.clone());
    let error = builder.build(|loader| {
        let report = load(loader, ROWS);
        store.wait_for(2);
        token.cancel();
        report
    });
    assert!(matches!(error.expect_err("no part").kind(), ErrorKind::Cancelled));
    let requests = store.requests();
    assert_eq!((requests.begun, requests.completed, requests.aborted), (2, 0, 2), "{requests:?}");
    assert_eq!(to.list().expect("runs").runs.iter().filter(|run| run.current).count(), 0);
}

/// Two tasks of the same attempt: the second one finds the object, and reads it to compare.
#[test]
fn an_object_without_a_checksum_is_compared() {
    let store = Pieces::new();
    let to = store.shards();
    let publication = to.begin().expect("a run");
    let builder = PartBuilder::new(&to, &publication.run, 0);
    let within = || PartBuilder::new(&to, &publication.run, 0).build(|loader| load(loader, ROWS));
    let mut inner = None;
    let outer = builder.build(|loader| {
        let report = load(loader, ROWS);
        inner = Some(within());
        report
    });
    let (outer, inner) = (outer.expect("a part").0, inner.expect("it ran").expect("a part").0);
    assert_eq!(outer, inner);
    assert_eq!((store.requests().completed, store.requests().aborted), (1, 1));

    // Another content of the same size.
    let builder = PartBuilder::new(&to, &publication.run, 1);
    let within = || {
        PartBuilder::new(&to, &publication.run, 1).build(|loader| {
            let columns =
                [Column::new("id", ColumnType::Integer), Column::new("text", ColumnType::Text)];
            let rows = (0..ROWS).map(|id| (id, format!("{:0490}", id + 1)));
            loader.table("t").load_rows(&columns, rows)
        })
    };
    let error = builder.build(|loader| {
        let report = load(loader, ROWS);
        within().expect("the first one");
        report
    });
    let error = error.expect_err("another object is there");
    assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
}

#[test]
fn an_object_that_another_process_has_put_there_is_told() {
    let store = Pieces::new();
    store.replaces.store(true, Ordering::Relaxed);
    let to = store.shards();
    let publication = to.begin().expect("a run");
    let builder = PartBuilder::new(&to, &publication.run, 0);
    let error = builder.build(|loader| load(loader, ROWS)).expect_err("another object is there");
    assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
}
