//! Each kind of call on what a child has inherited: all must fail, at once and by name.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leafpress::ErrorKind;
use leafpress::queue::{
    self, ClaimOptions, Job, ListOptions, Nack, Purge, Queue, QueueTransaction, Schedule, Stop,
    Token, Worker,
};
use leafpress::writer::{Executed, Reader, Ticket, Writer};

/// Long enough that a call that waits meets the alarm of the child.
const LONG: Duration = Duration::from_secs(3_600);

/// Things that a process has at the moment of a fork.
pub struct Inherited {
    pub writer: Writer,
    pub queue: Queue,
    /// Not answered yet, or just now.
    pub tickets: Vec<Ticket<Executed>>,
    /// With a claim in it.
    pub transaction: QueueTransaction,
    /// In the middle of a read transaction.
    pub reader: Reader,
    pub stop: Stop,
    pub token: Token,
}

/// Collects the calls that were not refused as they should be.
#[derive(Default)]
pub struct Complaints(pub Vec<String>);

impl Complaints {
    pub fn refused<T>(&mut self, call: &str, outcome: leafpress::Result<T>) {
        match outcome {
            Ok(_) => self.0.push(format!("{call} succeeded")),
            Err(error) if matches!(error.kind(), ErrorKind::Forked { .. }) => {}
            Err(error) => self.0.push(format!("{call} failed otherwise: {error}")),
        }
    }

    pub fn holds(&mut self, what: &str, is_so: bool) {
        if !is_so {
            self.0.push(format!("not so: {what}"));
        }
    }
}

/// Calls everything, and drops it all.
pub fn refuse_all(inherited: Inherited) -> Vec<String> {
    let mut complaints = Complaints::default();
    let Inherited { writer, queue, tickets, transaction, reader, stop, token } = inherited;
    refuse_writer(&mut complaints, &writer);
    refuse_tickets(&mut complaints, tickets);
    refuse_queue(&mut complaints, &queue, token);
    refuse_administration(&mut complaints, &queue);
    refuse_workers(&mut complaints, &queue, &stop);
    refuse_transaction(&mut complaints, transaction, &queue, token);
    complaints.refused("names", queue::names(&writer));
    complaints.refused("Queue::open", Queue::open(&writer, "mail"));
    let read = reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    let is_refused = read.is_err_and(|error| error.to_string().contains("not authorized"));
    complaints.holds("an inherited reader refuses", is_refused);
    drop(reader);
    complaints.refused("close", writer.clone().close());
    complaints.0
}

fn refuse_writer(complaints: &mut Complaints, writer: &Writer) {
    const INSERT: &str = "INSERT INTO t VALUES (-1, 'child')";
    let rows = || [(-1_i64, "child")].into_iter();
    complaints.refused("execute", writer.execute(INSERT, ()));
    complaints.refused("submit", writer.submit(INSERT, ()));
    complaints.refused("try_submit", writer.try_submit(INSERT, ()));
    complaints.refused("execute_batch", writer.execute_batch(INSERT));
    complaints.refused("submit_batch", writer.submit_batch(INSERT));
    complaints.refused("transaction", writer.transaction(|tx| tx.execute(INSERT, ())));
    complaints
        .refused("submit_transaction", writer.submit_transaction(|tx| tx.execute(INSERT, ())));
    complaints.refused("insert_many", writer.insert_many("t", &["id", "who"], rows()));
    complaints
        .refused("submit_insert_many", writer.submit_insert_many("t", &["id", "who"], rows()));
    complaints.refused("reader", writer.reader());
    complaints.refused("reader_named", writer.reader_named("child"));
    complaints.holds("stats are those of no call", writer.stats().calls == 0);
    complaints.holds("in_force is the parent's", writer.in_force().is_some());
    complaints.holds("it is stopped", writer.stopped().is_some_and(|it| it.contains("forked")));
    complaints.holds("it can be shown", format!("{writer:?}").contains("parent"));
}

fn refuse_tickets(complaints: &mut Complaints, mut tickets: Vec<Ticket<Executed>>) {
    for ticket in &tickets {
        complaints.holds("a ticket has its answer", ticket.is_answered());
        complaints.holds("a ticket is not cancelled", !ticket.cancel());
    }
    if let Some(mut ticket) = tickets.pop() {
        match Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => complaints.refused("poll", outcome),
            Poll::Pending => complaints.holds("poll is ready", false),
        }
    }
    if let Some(ticket) = tickets.pop() {
        match ticket.wait_timeout(LONG) {
            Ok(outcome) => complaints.refused("wait_timeout", outcome),
            Err(_) => complaints.holds("wait_timeout has an answer", false),
        }
    }
    if let Some(ticket) = tickets.pop() {
        complaints.refused("wait", ticket.wait());
    }
}

fn refuse_queue(complaints: &mut Complaints, queue: &Queue, token: Token) {
    let waiting = ClaimOptions::new().wait(LONG);
    complaints.refused("push", queue.push("child"));
    complaints.refused("submit_push", queue.submit_push("child"));
    complaints.refused("push_many", queue.push_many([Job::new("child")]));
    complaints.refused("claim", queue.claim());
    complaints.refused("claim_with", queue.claim_with(&waiting));
    complaints.refused("ack", queue.ack(token));
    complaints.refused("ack_with", queue.ack_with(token, "child"));
    complaints.refused("ack_many", queue.ack_many(&[token]));
    complaints.refused("nack", queue.nack(token, Nack::new()));
    complaints.refused("fail", queue.fail(token, "child"));
    complaints.refused("release", queue.release(token));
    complaints.refused("extend", queue.extend(token, LONG));
    complaints.refused("extend_many", queue.extend_many(&[token], LONG));
    complaints.refused("begin", queue.begin(LONG));
    queue.wake();
}

fn refuse_administration(complaints: &mut Complaints, queue: &Queue) {
    let schedule = Schedule::cron("child", "@daily").unwrap();
    complaints.refused("settings", queue.settings());
    complaints.refused("configure", queue.configure(|_| ()));
    complaints.refused("pause", queue.pause());
    complaints.refused("resume", queue.resume());
    complaints.refused("retry", queue.retry(1));
    complaints.refused("retry_dead", queue.retry_dead(None));
    complaints.refused("remove", queue.remove(1));
    complaints.refused("purge", queue.purge(&Purge::new()));
    complaints.refused("drop_queue", queue.clone().drop_queue());
    complaints.refused("stats of a queue", queue.stats());
    complaints.refused("prometheus", queue.prometheus());
    complaints.refused("job", queue.job(1));
    complaints.refused("list", queue.list(&ListOptions::new()));
    complaints.refused("history", queue.history(1));
    complaints.refused("schedule", queue.schedule(&schedule));
    complaints.refused("unschedule", queue.unschedule("child"));
    complaints.refused("schedules", queue.schedules());
}

fn refuse_workers(complaints: &mut Complaints, queue: &Queue, stop: &Stop) {
    let worker = Worker::new(queue);
    complaints.refused("Worker::run", worker.run(&Stop::new(), |_| unreachable!("no job")));
    let with_lease = worker.lease(LONG);
    complaints.refused("Worker::run", with_lease.run(&Stop::new(), |_| unreachable!("no job")));
    complaints.refused("Worker::run", with_lease.run(stop, |_| unreachable!("no job")));
    stop.now();
    complaints.holds("a child asks itself to stop", stop.is_asked());
}

fn refuse_transaction(
    complaints: &mut Complaints,
    mut transaction: QueueTransaction,
    queue: &Queue,
    token: Token,
) {
    complaints.refused("claim of a transaction", transaction.claim());
    complaints.refused("claim_many of a transaction", transaction.claim_many(2));
    complaints.refused("include", transaction.include(token));
    transaction.push("child");
    complaints.refused("push_to", transaction.push_to(queue, "child"));
    complaints.refused("extend of a transaction", transaction.extend(LONG));
    complaints.refused("commit", transaction.commit());
}
