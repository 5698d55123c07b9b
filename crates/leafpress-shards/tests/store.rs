//! Shards in an object store: the store in memory, with faults in front of it. What is read is judged as in a folder.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use leafpress::load::{Column, ColumnType, Value};
use leafpress::{ErrorKind, Result};
use leafpress_shards::remote::{RemoteDatabase, RemoteOptions};
use leafpress_shards::{
    Cache, Key, Manifest, PartBuilder, PartRecord, Publication, RouteBy, Routing, Schema, Sharder,
    Shards,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tempfile::TempDir;

type Answer<T> = object_store::Result<T>;

/// A fault of the writes of objects whose name ends in a word.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The write is carried out, and its answer is lost.
    AnswerLost,
    /// The write is not carried out, and there is no answer.
    RequestLost,
    /// The write is not allowed.
    Denied,
    /// The object cannot be removed.
    Kept,
}

/// Work that is done in the middle of a request.
struct Hook {
    /// A look at an object, which is answered then, or a write, which comes after it.
    is_look: bool,
    /// End of the object's name.
    ending: String,
    /// Number of such requests before it.
    before: u32,
    work: Box<dyn FnOnce() + Send>,
}

/// A store in memory with faults.
struct Faulty {
    store: InMemory,
    faults: Mutex<Vec<(&'static str, Fault)>>,
    hook: Mutex<Option<Hook>>,
    puts: AtomicU32,
    gets: AtomicU32,
}

impl Faulty {
    fn new() -> Arc<Self> {
        let (puts, gets) = (AtomicU32::new(0), AtomicU32::new(0));
        let (faults, hook) = Default::default();
        Arc::new(Self { store: InMemory::new(), faults, hook, puts, gets })
    }

    /// Does the work of the hook if it is its turn.
    async fn reach(&self, is_look: bool, path: &Path) {
        let work = {
            let mut hook = self.hook.lock().expect("a lock");
            let mut found = hook.take_if(|it| {
                let is_it = it.is_look == is_look && path.as_ref().ends_with(&it.ending);
                let is_turn = is_it && it.before == 0;
                it.before -= u32::from(is_it && !is_turn);
                is_turn
            });
            found.take().map(|it| it.work)
        };
        if let Some(work) = work {
            tokio::task::spawn_blocking(work).await.expect("the work");
        }
    }

    /// Adds a fault of the next write of such an object.
    fn add(&self, ending: &'static str, fault: Fault) {
        self.faults.lock().expect("a lock").push((ending, fault));
    }

    fn take(&self, path: &Path) -> Option<Fault> {
        let mut faults = self.faults.lock().expect("a lock");
        let place = faults.iter().position(|(ending, _)| path.as_ref().ends_with(ending))?;
        Some(faults.remove(place).1)
    }

    fn count(&self) -> (u32, u32) {
        (self.puts.load(Ordering::Relaxed), self.gets.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("faulty")
    }
}

fn lost() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "the connection was closed".into() }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, how: PutOptions) -> Answer<PutResult> {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.reach(false, at).await;
        match self.take(at) {
            None => self.store.put_opts(at, bytes, how).await,
            Some(Fault::RequestLost | Fault::Kept) => Err(lost()),
            Some(Fault::AnswerLost) => {
                self.store.put_opts(at, bytes, how).await?;
                Err(lost())
            }
            Some(Fault::Denied) => Err(object_store::Error::PermissionDenied {
                path: at.to_string(),
                source: "403".into(),
            }),
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Answer<Box<dyn MultipartUpload>> {
        self.puts.fetch_add(1, Ordering::Relaxed);
        match self.take(at) {
            None => self.store.put_multipart_opts(at, how).await,
            Some(_) => Err(lost()),
        }
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Answer<GetResult> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        let is_look = how.head;
        let answer = self.store.get_opts(at, how).await;
        if is_look {
            self.reach(true, at).await;
        }
        answer
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Answer<Path>>,
    ) -> BoxStream<'static, Answer<Path>> {
        let kept = self.faults.lock().expect("a lock").clone();
        let refuse = move |path: Path| {
            let is_kept =
                |&(ending, fault)| fault == Fault::Kept && path.as_ref().ends_with(ending);
            if kept.iter().any(is_kept) { Err(lost()) } else { Ok(path) }
        };
        self.store.delete_stream(paths.map(move |path| path.and_then(&refuse)).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Answer<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Answer<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Answer<()> {
        self.store.copy_opts(from, to, how).await
    }
}

fn shards(store: &Arc<Faulty>) -> Shards {
    let store: Arc<dyn ObjectStore> = Arc::<Faulty>::clone(store);
    Shards::on_store(store, None, "memory://place", &Path::from("a/place"))
}

/// Splits the numbers below `rows` with texts of this length.
fn shard(to: &Shards, rows: usize, parts: usize, length: usize) -> Result<Manifest> {
    let folder = TempDir::new().expect("a folder");
    let input = folder.path().join("t.csv");
    let mut text = "id,name\n".to_owned();
    for id in 0..rows {
        let _ = writeln!(text, "{id},{:0length$}", id * 7);
    }
    fs::write(&input, text).expect("an input");
    let by: RouteBy = "hash(id)".parse().expect("a rule");
    Sharder::new(to.clone(), by, parts)
        .with_parts(|loader| loader.primary_key("id"))
        .run(|stage| stage.load_file(&input))?;
    to.manifest()
}

fn part(to: &Shards, publication: &Publication, attempt: &str, rows: i64) -> PartRecord {
    let columns = [Column::new("id", ColumnType::Integer)];
    let builder = PartBuilder::new(to, &publication.run, 0).attempt(attempt).key("id");
    let load = builder.build(|it| it.table("t").load_rows(&columns, (0..rows).map(|id| (id,))));
    load.expect("a part").0
}

fn schema() -> Schema {
    Schema { table: "t".to_owned(), sql: vec!["CREATE TABLE t(id)".to_owned()] }
}

fn publish(to: &Shards, publication: &Publication) -> Result<Manifest> {
    let records = vec![part(to, publication, "a", 3)];
    let manifest = Manifest::new(publication.run.clone(), schema(), Routing::Rows, records);
    to.publish(publication, manifest)
}

fn names(store: &Faulty) -> Vec<String> {
    let listed = futures_util::future::join_all;
    let all = async {
        let found: Vec<_> = store.store.list(None).collect().await;
        listed(found.into_iter().map(|it| async { it.expect("an object").location.to_string() }))
            .await
    };
    let mut names = block(all);
    names.sort();
    names
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

fn copies(folder: &FilePath) -> (usize, u64) {
    let files = fs::read_dir(folder).expect("a cache");
    let sizes: Vec<u64> =
        files.map(|it| it.expect("a file").metadata().expect("a size").len()).collect();
    (sizes.len(), sizes.iter().sum())
}

#[test]
fn a_run_in_a_store_is_read_checked_and_rolled_back() {
    let store = Faulty::new();
    let to = shards(&store);
    assert!(matches!(to.manifest().expect_err("nothing").kind(), ErrorKind::NotFound { .. }));
    // Parts of several pieces, and of one.
    let first = shard(&to, 40_000, 2, 500).expect("a run");
    assert!(first.parts.iter().all(|part| part.bytes > 9 << 20), "{first:?}");
    let second = shard(&to, 1000, 3, 10).expect("a run");
    assert_eq!(second.previous.as_ref(), Some(&first.run));
    let verdict = to.verify(|| false).expect("a verdict");
    assert!(verdict.sound && verdict.rows == 1000, "{verdict:?}");
    let reader = to.reader().expect("a reader");
    for id in [0, 7, 999] {
        let rows = reader.get(&[Value::Integer(id)]).expect("rows");
        assert_eq!(rows.len(), 1, "{id}");
    }
    assert_eq!(reader.get(&[Value::Integer(1000)]).expect("rows").len(), 0);
    let names = names(&store);
    assert_eq!(names.len(), 1 + 2 * 2 + 5, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("a/place/")));
    assert_eq!(to.rollback(None).expect("a rollback").run, first.run);
    assert!(to.verify(|| false).expect("a verdict").sound);
    assert!(matches!(to.verify(|| true).expect_err("stopped").kind(), ErrorKind::Cancelled));
    assert_eq!(to.list().expect("runs").runs.iter().filter(|run| run.current).count(), 1);
}

#[test]
fn of_two_publications_in_a_store_one_is_told() {
    let to = shards(&Faulty::new());
    for _ in 0..2 {
        let [first, second] = [(); 2].map(|()| to.begin().expect("a run"));
        publish(&to, &first).expect("it is published");
        let error = publish(&to, &second).expect_err("it is not");
        assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
        assert_eq!(to.manifest().expect("a manifest").run, first.run);
        // A run is published once.
        let error = publish(&to, &first).expect_err("it is there");
        assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
        to.rollback(Some(&second.run)).expect("a rollback");
        assert_eq!(to.manifest().expect("a manifest").run, second.run);
    }
}

/// Each round of threads that publish at once has one winner.
#[test]
fn of_many_publications_in_a_store_one_wins() {
    let to = shards(&Faulty::new());
    for _ in 0..5 {
        let before = to.list().expect("runs").runs.len();
        let publications: Vec<_> = (0..6).map(|_| to.begin().expect("a run")).collect();
        let published: Vec<_> = std::thread::scope(|scope| {
            let to = &to;
            let one = |publication| {
                scope.spawn(move || publish(to, publication).map_err(|it| it.kind().name()))
            };
            let threads: Vec<_> = publications.iter().map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
        });
        let winners: Vec<_> = published.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{published:?}");
        assert!(published.iter().all(|it| !matches!(it, Err(kind) if *kind != "changed")));
        assert_eq!(to.manifest().expect("a manifest"), *winners[0]);
        assert_eq!(to.list().expect("runs").runs.len(), before + 6);
    }
}

/// A write of `_CURRENT` without an answer: the content tells what became of it.
#[test]
fn an_answer_that_is_lost_is_found_out() {
    for fault in [Fault::AnswerLost, Fault::RequestLost] {
        for ending in ["_CURRENT", "manifest.json", "manifest.db", ".db"] {
            let store = Faulty::new();
            let to = shards(&store);
            publish(&to, &to.begin().expect("a run")).expect("the first run");
            store.add(ending, fault);
            let publication = to.begin().expect("a run");
            let folder = shard(&to, 100, 1, 10);
            if fault == Fault::RequestLost && ending != "_CURRENT" {
                // Nothing was written, and the run before is current.
                let error = folder.expect_err("no answer");
                assert_eq!(error.kind().name(), "io", "{ending} {error}");
                assert_eq!(to.list().expect("runs").runs.len(), 1);
                assert_eq!(names(&store).len(), 4, "{ending}: nothing is left");
                publish(&to, &publication).expect("the next one");
            } else {
                let manifest = folder.expect("it is found out");
                assert_eq!(to.manifest().expect("a manifest"), manifest, "{ending} {fault:?}");
                // Control: the others are still told.
                let error = publish(&to, &publication).expect_err("too late");
                assert_eq!(error.kind().name(), "changed");
            }
            assert!(to.verify(|| false).expect("a verdict").sound);
        }
    }
}

#[test]
fn the_last_write_without_an_answer_is_looked_at() {
    let store = Faulty::new();
    let to = shards(&store);
    let publication = to.begin().expect("a run");
    for fault in [Fault::RequestLost, Fault::RequestLost, Fault::RequestLost, Fault::AnswerLost] {
        store.add("_CURRENT", fault);
    }
    publish(&to, &publication).expect("it is published");
    assert_eq!(to.manifest().expect("a manifest").run, publication.run);
}

#[test]
fn a_store_that_never_answers_leaves_the_outcome_open() {
    let store = Faulty::new();
    let to = shards(&store);
    let publication = to.begin().expect("a run");
    for _ in 0..10 {
        store.add("_CURRENT", Fault::RequestLost);
    }
    let error = publish(&to, &publication).expect_err("no answer");
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&publication.run) && text.contains("memory://place/_CURRENT"), "{text}");
    store.faults.lock().expect("a lock").clear();
    store.add("_CURRENT", Fault::Denied);
    let second = to.begin().expect("a run");
    let error = publish(&to, &second).expect_err("denied");
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    assert!(error.to_string().contains("credentials"), "{error}");
    assert!(to.manifest().is_err());
    to.rollback(Some(&second.run)).expect("it is complete");
    assert!(to.verify(|| false).expect("a verdict").sound);
}

#[test]
fn attempts_in_a_store_are_repeated_without_a_new_upload() {
    let store = Faulty::new();
    let to = shards(&store);
    let publication = to.begin().expect("a run");
    let record = part(&to, &publication, "b", 5);
    let lost = part(&to, &publication, "a", 5);
    let puts = store.count().0;
    assert_eq!(part(&to, &publication, "b", 5), record);
    assert_eq!(store.count().0, puts, "the object is there");
    let routing = Routing::Rows;
    let manifest = Manifest::new(publication.run.clone(), schema(), routing, vec![record.clone()]);
    to.publish(&publication, manifest).expect("it is published");
    let dead = to.begin().expect("a run that dies");
    let left = part(&to, &dead, "a", 5);
    assert_eq!(to.gc(Duration::from_secs(3600), false).expect("gc").files, [""; 0]);
    let looked = to.gc(Duration::ZERO, true).expect("gc");
    assert_eq!(names(&store).len(), 6);
    let removed = to.gc(Duration::ZERO, false).expect("gc");
    assert_eq!(removed.files, looked.files);
    assert_eq!(removed.files, [lost.path, left.path]);
    assert_eq!(names(&store).len(), 4);
    assert!(to.verify(|| false).expect("a verdict").sound);
}

#[test]
fn gc_of_a_store_tells_what_it_removed_before_an_error() {
    let store = Faulty::new();
    let to = shards(&store);
    let dead = to.begin().expect("a run that dies");
    let (first, last) = (part(&to, &dead, "a", 3), part(&to, &dead, "b", 3));
    store.add("-b.db", Fault::Kept);
    let removed = to.gc(Duration::ZERO, false).expect("gc");
    assert_eq!((removed.files, removed.problems.len()), (vec![first.path], 1));
    assert!(removed.problems[0].contains(&last.path), "{:?}", removed.problems);
    to.gc(Duration::ZERO, false).expect_err("nothing is removed");
    // Its mark too: the run lacks a file, and must not be published.
    assert_eq!(names(&store).len(), 2);
    store.faults.lock().expect("a lock").clear();
    assert_eq!(to.gc(Duration::from_secs(3600), false).expect("gc").too_young, 1);
    assert_eq!(to.gc(Duration::ZERO, false).expect("gc").files, [last.path]);
    assert_eq!(names(&store), [""; 0]);
}

/// A publication between any two looks of gc at its manifest.
#[test]
fn gc_removes_nothing_of_a_run_that_is_published_meanwhile() {
    for before in 0..3 {
        let store = Faulty::new();
        let to = shards(&store);
        let first = shard(&to, 100, 2, 10).expect("a run");
        let publication = to.begin().expect("a run");
        let (run, records) = (publication.run.clone(), vec![part(&to, &publication, "a", 3)]);
        let manifest = Manifest::new(run.clone(), schema(), Routing::Rows, records);
        let (sender, outcome) = std::sync::mpsc::channel();
        let (other, begun) = (to.clone(), publication.clone());
        let work = move || {
            let published = other.publish(&begun, manifest);
            sender.send(published.map_err(|error| error.kind().name())).expect("the test waits");
        };
        let ending = format!("{run}/manifest.json");
        let hook = Hook { is_look: true, ending, before, work: Box::new(work) };
        *store.hook.lock().expect("a lock") = Some(hook);
        let collected = to.gc(Duration::ZERO, false).expect("gc");
        assert!(collected.problems.is_empty(), "{collected:?}");
        let published = outcome.try_recv().expect("gc looked so often");
        let now = to.manifest().expect("a manifest").run;
        if before < 2 {
            assert_eq!((published.map(|it| it.run), &now), (Ok(run.clone()), &run), "{before}");
            assert_eq!(collected.files, [""; 0]);
        } else {
            assert_eq!((published, &now), (Err("changed"), &first.run), "{before}");
            assert_eq!(collected.files.len(), 1);
            to.abandon(&publication);
            assert!(names(&store).iter().all(|name| !name.contains(&run)));
        }
        assert!(to.verify(|| false).expect("a verdict").sound, "{before}");
        assert!(names(&store).iter().all(|name| !name.ends_with("_REMOVING")));
    }
}

/// All of gc between a publication's look at the parts and its manifest.
#[test]
fn a_run_whose_parts_go_while_it_is_published_never_becomes_current() {
    let store = Faulty::new();
    let to = shards(&store);
    let first = shard(&to, 100, 2, 10).expect("a run");
    let publication = to.begin().expect("a run");
    let gc = to.clone();
    let work =
        Box::new(move || assert_eq!(gc.gc(Duration::ZERO, false).expect("gc").files.len(), 2));
    let hook = Hook { is_look: false, ending: "manifest.json".to_owned(), before: 0, work };
    *store.hook.lock().expect("a lock") = Some(hook);
    let error = publish(&to, &publication).expect_err("its part is gone");
    assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
    assert_eq!(to.manifest().expect("a manifest").run, first.run);
    assert!(names(&store).iter().all(|name| !name.contains(&publication.run)));
    to.rollback(Some(&publication.run)).expect_err("there is no such run");
}

/// The mark of a gc that was killed: the run may lack files, so it is not published.
#[test]
fn a_run_that_gc_began_to_remove_is_not_published() {
    let store = Faulty::new();
    let to = shards(&store);
    let publication = to.begin().expect("a run");
    let mark = Path::from(format!("a/place/runs/{}/_REMOVING", publication.run));
    block(store.store.put(&mark, "".into())).expect("a mark");
    let error = publish(&to, &publication).expect_err("the mark is there");
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    assert!(error.to_string().contains("are being removed"), "{error}");
    to.gc(Duration::ZERO, false).expect("gc");
    assert_eq!(names(&store), [""; 0]);
}

#[test]
fn a_run_in_a_store_needs_all_of_its_parts() {
    let store = Faulty::new();
    let to = shards(&store);
    let first = shard(&to, 100, 2, 10).expect("a run");
    let publication = to.begin().expect("a run");
    to.keep_alive(&publication.run).expect("a sign of life");
    to.keep_alive(&publication.run).expect("another one");
    let records = vec![part(&to, &publication, "a", 3)];
    let key = |record: &PartRecord| Path::from(format!("a/place/{}", record.path));
    let manifest = Manifest::new(publication.run.clone(), schema(), Routing::Rows, records);
    block(store.store.delete(&key(&manifest.parts[0]))).expect("the part is gone");
    let error = to.publish(&publication, manifest).expect_err("a part is gone");
    assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
    assert_eq!(to.manifest().expect("a manifest").run, first.run);
    let other = vec![part(&to, &publication, "b", 4)];
    let manifest = Manifest::new(publication.run.clone(), schema(), Routing::Rows, other);
    to.publish(&publication, manifest).expect("with a part that is there it is published");
    assert!(to.verify(|| false).expect("a verdict").sound);
    assert!(names(&store).iter().all(|name| !name.ends_with("_ALIVE")));
    block(store.store.put(&key(&first.parts[1]), "x".into())).expect("damage");
    let error = to.rollback(None).expect_err("a part has changed");
    assert!(error.to_string().contains("part 1 of run"), "{error}");
    assert_eq!(to.manifest().expect("a manifest").run, publication.run);
}

#[test]
fn damage_in_a_store_is_found_and_never_read() {
    let store = Faulty::new();
    let to = shards(&store);
    let manifest = shard(&to, 3000, 3, 10).expect("a run");
    let key = |part: usize| Path::from(format!("a/place/{}", manifest.parts[part].path));
    let bytes = block(async { store.store.get(&key(0)).await.expect("a part").bytes().await });
    let mut bytes = bytes.expect("bytes").to_vec();
    *bytes.last_mut().expect("a byte") ^= 1;
    block(store.store.put(&key(0), bytes.into())).expect("damage");
    block(store.store.delete(&key(2))).expect("a part is gone");
    let verdict = to.verify(|| false).expect("a verdict");
    let problems = verdict.problems.join("\n");
    assert!(!verdict.sound);
    assert!(problems.contains("part 0: ") && problems.contains("checksum"), "{problems}");
    assert!(problems.contains("part 2: ") && !problems.contains("part 1: "), "{problems}");
    let reader = to.reader().expect("a reader");
    let count = |part| {
        reader.on_part(part, "SELECT count(*) FROM t", |it| {
            it.query_row([], |row| row.get::<_, i64>(0))
                .map_err(|it| leafpress::Error::sqlite("count", it))
        })
    };
    let error = count(0).expect_err("another content");
    assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
    assert!(matches!(count(2).expect_err("gone").kind(), ErrorKind::NotFound { .. }));
    assert_eq!(count(1).expect("a count"), manifest.parts[1].rows as i64);
}

#[test]
fn a_reader_by_ranges_fetches_no_whole_part() {
    let store = Faulty::new();
    let to = shards(&store);
    let manifest = shard(&to, 40_000, 2, 500).expect("a run");
    let reader = to.ranges_reader(RemoteOptions::default()).expect("a reader");
    let (_, before) = store.count();
    for id in [0, 777, 39_999] {
        let rows = reader.get(&[Value::Integer(id)]).expect("a row");
        assert_eq!(rows[0][0], Key::Integer(id));
    }
    assert!(reader.get(&[Value::Integer(40_000)]).expect("no row").is_empty());
    let (_, after) = store.count();
    // One request at the open of each part, a few for a lookup in parts without the layout for distance.
    assert!(after - before <= 2 + 4 * 3, "{} requests", after - before);
    let counted =
        reader.scan("SELECT count(*) FROM t", |row| row.get::<_, i64>(0)).expect("counts");
    assert_eq!(counted.iter().flatten().sum::<i64>() as u64, manifest.rows);
    // A part of another size than the manifest says is told.
    let path = Path::from(format!("a/place/{}", manifest.parts[1].path));
    let whole = block(async { store.store.get(&path).await.expect("a part").bytes().await });
    let longer = [&whole.expect("its bytes")[..], &[0; 4096]].concat();
    block(store.store.put(&path, longer.into())).expect("another object");
    let fresh = to.ranges_reader(RemoteOptions::default()).expect("a reader");
    let error = fresh.scan("SELECT 1 FROM t", |_| Ok(())).expect_err("another size");
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
}

/// The store answers only once the caller has gone.
#[test]
fn the_wait_for_a_copy_ends_once_the_caller_wants_it() {
    let store = Faulty::new();
    let to = shards(&store);
    shard(&to, 100, 1, 10).expect("a run");
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().join("cache");
    let is_stopping = Arc::new(AtomicBool::new(false));
    let looked = Arc::clone(&is_stopping);
    let cache = Cache::new(&place, 1 << 20).expect("a cache");
    let reader = to.cached_reader(cache).expect("a reader");
    let reader = reader.stop_when(move || looked.load(Ordering::Relaxed));
    let stopping = Arc::clone(&is_stopping);
    let (gone, has_gone) = std::sync::mpsc::channel::<()>();
    let work = Box::new(move || {
        stopping.store(true, Ordering::Relaxed);
        let _ = has_gone.recv_timeout(Duration::from_secs(20));
    });
    let hook = Hook { is_look: true, ending: ".db".to_owned(), before: 0, work };
    *store.hook.lock().expect("a lock") = Some(hook);
    let error = reader.get(&[Value::Integer(1)]).expect_err("it is stopped");
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    drop(gone);
    assert_eq!(copies(&place), (0, 0));
    is_stopping.store(false, Ordering::Relaxed);
    assert_eq!(reader.get(&[Value::Integer(1)]).expect("rows").len(), 1);
}

#[test]
fn a_cache_is_bounded_and_shared() {
    let store = Faulty::new();
    let to = shards(&store);
    let manifest = shard(&to, 8000, 8, 40).expect("a run");
    let largest = manifest.parts.iter().map(|part| part.bytes).max().expect("parts");
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().join("cache");
    let cache = || Cache::new(&place, 3 * largest).expect("a cache");
    let reader = to.cached_reader(cache()).expect("a reader");
    for round in 0..3 {
        for id in 0..40 {
            assert_eq!(reader.get(&[Value::Integer(id)]).expect("rows").len(), 1);
            let (files, bytes) = copies(&place);
            assert!(
                files <= 3 && bytes <= 3 * largest,
                "round {round}: {files} files, {bytes} bytes"
            );
        }
    }
    // What is there is not fetched again, by another reader either.
    let last = reader.part_of(&[Value::Integer(39)]).expect("a part");
    let other = to.cached_reader(cache()).expect("a reader");
    let gets = store.count().1;
    let sql = "SELECT count(*) FROM t";
    let count = |reader: &leafpress_shards::Reader, part| {
        reader.on_part(part, sql, |it| {
            it.query_row([], |row| row.get::<_, i64>(0))
                .map_err(|it| leafpress::Error::sqlite("count", it))
        })
    };
    count(&other, last).expect("a count");
    assert_eq!(store.count().1, gets, "the copy was there");
    // Readers that take one another's copies away all go on.
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (to, cache, manifest) = (&to, cache(), &manifest);
            scope.spawn(move || {
                let reader = to.cached_reader(cache).expect("a reader");
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..60 {
                    let part = random.usize(..8);
                    let found = count(&reader, part).expect("a count");
                    assert_eq!(found, manifest.parts[part].rows as i64);
                }
            });
        }
    });
    assert_eq!(
        reader.scan(sql, |row| row.get::<_, i64>(0)).expect("counts").concat().iter().sum::<i64>(),
        8000
    );
    // A scan keeps to the bound too, and so does a reader with a lower one than others had.
    let one = to.cached_reader(Cache::new(&place, largest).expect("a cache")).expect("a reader");
    one.scan(sql, |row| row.get::<_, i64>(0)).expect("counts");
    let (_, bytes) = copies(&place);
    assert!(bytes <= largest, "{bytes} bytes, not {largest}");
    let small = Cache::new(&place, largest - 1).expect("a cache");
    let error = to.cached_reader(small).and_then(|it| it.scan(sql, |_| Ok(()))).expect_err("small");
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        let mode =
            |path: &FilePath| path.metadata().expect("it is there").permissions().mode() & 0o77;
        assert_eq!(mode(&place), 0);
        let first = fs::read_dir(&place).expect("a cache").next().expect("a copy").expect("a file");
        assert_eq!(mode(&first.path()), 0);
    }
}

/// A copy that is damaged in the cache has another size, or is the cache's owner's doing.
#[test]
fn a_copy_that_was_cut_is_fetched_again() {
    let to = shards(&Faulty::new());
    shard(&to, 100, 1, 40).expect("a run");
    let folder = TempDir::new().expect("a folder");
    let read = || {
        let cache = Cache::new(folder.path(), 1 << 30).expect("a cache");
        let reader = to.cached_reader(cache).expect("a reader");
        reader.scan("SELECT count(*) FROM t", |row| row.get::<_, i64>(0)).expect("a count").concat()
    };
    assert_eq!(read(), [100]);
    let copy =
        fs::read_dir(folder.path()).expect("a cache").next().expect("a copy").expect("a file");
    fs::OpenOptions::new()
        .write(true)
        .open(copy.path())
        .and_then(|it| it.set_len(4096))
        .expect("a cut");
    assert_eq!(read(), [100]);
}

#[test]
fn urls_that_make_no_sense_are_told() {
    for wrong in [
        "ftp://host/x",
        "s3://",
        "s3://key:secret@bucket/x",
        "s3://bucket/x?y=1",
        "://",
        "s3:///x",
        "http://host/x",
        "s3://AKIA:wJalr/secret@bucket/x",
        "s3://AKIA:7/secret@bucket/x",
        "az://c/p?sv=2024&sig=secret",
        "s3://bucket/x#secret",
        "://AKIA:secret@bucket",
    ] {
        let error = Shards::at(wrong).map(drop).expect_err(wrong);
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{wrong}: {error}");
        for part in ["secret", "AKIA", "wJalr", "sv="] {
            assert!(!error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn messages_show_no_secret_of_the_url_of_a_database() {
    for url in [
        "https://bucket.example/x.db?X-Amz-Signature=secret",
        "https://ann:se/cret@bucket.example/x.db",
        "https://ann:secret@bucket.example/x.db#1",
        "http://ann:secret@127.0.0.1:1/x.db",
    ] {
        let options = RemoteOptions::default().timeout(Duration::from_millis(200));
        let error = RemoteDatabase::open_url(url, None, &options).map(drop).expect_err(url);
        assert!(!format!("{error} {error:?}").contains("cret"), "{error} {error:?}");
    }
}

/// A caller inside of a runtime waits, and does not panic.
#[test]
fn a_caller_may_have_a_runtime_of_its_own() {
    block(async {
        let to = shards(&Faulty::new());
        publish(&to, &to.begin().expect("a run")).expect("it is published");
    });
}

/// The mode of each write: `_CURRENT` by its version, all else only where nothing is.
#[test]
fn no_object_is_replaced_but_the_current_one() {
    let store = Faulty::new();
    let to = shards(&store);
    let publication = to.begin().expect("a run");
    part(&to, &publication, "a", 3);
    // Control: the store itself would replace it.
    let key = Path::from(format!("a/place/runs/{}/parts/00000-b.db", publication.run));
    block(store.store.put(&key, "other".into())).expect("another object");
    let columns = [Column::new("id", ColumnType::Integer)];
    let built = PartBuilder::new(&to, &publication.run, 0)
        .attempt("b")
        .build(|loader| loader.table("t").load_rows(&columns, [(1_i64,)]));
    assert!(built.is_err(), "what is there is no part");
    let found = block(async { store.store.get(&key).await.expect("it").bytes().await });
    assert_eq!(found.expect("bytes"), "other");
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    assert!(block(store.store.put_opts(&key, "x".into(), create)).is_err());
}
