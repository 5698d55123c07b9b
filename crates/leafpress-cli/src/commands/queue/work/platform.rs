//! Process groups and waiting for a program, for each operating system.
//!
//! 1. A program is a process group of its own, so that a ctrl-C at the terminal
//!    is ours alone, and its children can be ended with it.
//! 2. Its number stays its own until [`Process::reap`]: the thread that watches
//!    it leaves it as a zombie, so no signal can ever strike a stranger.
//!
//! Must never: wait for a process that it did not start.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use super::control::Event;

/// A program that runs, and its events.
pub struct Process {
    pub child: Child,
    events: Receiver<Event>,
}

#[cfg(unix)]
mod system {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    use super::{Child, Command, Event, ExitStatus, Sender, io};

    pub fn set_apart(command: &mut Command) {
        command.process_group(0);
    }

    fn pid_of(child: &Child) -> Option<Pid> {
        i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    }

    pub fn watch(child: &Child, sender: Sender<Event>) -> io::Result<()> {
        let Some(pid) = pid_of(child) else { return Err(io::Error::other("it has no number")) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let watch = move || {
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            // The receiver is gone only if the whole worker has ended.
            let _ = sender.send(Event::Exited);
        };
        std::thread::Builder::new().name("leafpress-wait".to_owned()).spawn(watch)?;
        Ok(())
    }

    pub fn signal(child: &mut Child, is_hard: bool) {
        let Some(pid) = pid_of(child) else { return };
        // A group whose last member has gone needs no signal.
        let _ = kill_process_group(pid, if is_hard { Signal::KILL } else { Signal::TERM });
    }

    pub fn signal_of(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    pub fn advice(error: &io::Error) -> Option<&'static str> {
        use rustix::io::Errno;

        match Errno::from_io_error(error)? {
            Errno::NOEXEC => Some(
                "let the file begin with a line such as #!/bin/sh, or give its line to --shell",
            ),
            Errno::AGAIN => Some(
                "end other processes of this user, or allow it more (ulimit -u, the container)",
            ),
            Errno::NOMEM => {
                Some("end programs that need much memory, or allow this one more (ulimit -v)")
            }
            _ => None,
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Child, Command, Event, ExitStatus, Sender, io};

    #[cfg(windows)]
    pub fn set_apart(command: &mut Command) {
        use std::os::windows::process::CommandExt as _;

        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    #[cfg(not(windows))]
    pub fn set_apart(_command: &mut Command) {}

    pub fn watch(_child: &Child, _sender: Sender<Event>) -> io::Result<()> {
        Ok(())
    }

    pub fn signal(child: &mut Child, _is_hard: bool) {
        // A program that has ended needs no signal.
        let _ = child.kill();
    }

    pub fn signal_of(_status: ExitStatus) -> Option<i32> {
        None
    }

    pub fn advice(_error: &io::Error) -> Option<&'static str> {
        None
    }
}

impl Process {
    /// Starts it; what happens to it comes through `events`, whose other end is
    /// `sender`.
    pub fn start(
        command: &mut Command,
        sender: Sender<Event>,
        events: Receiver<Event>,
    ) -> io::Result<Self> {
        system::set_apart(command);
        let mut process = Self { child: command.spawn()?, events };
        if let Err(error) = system::watch(&process.child, sender) {
            process.kill();
            process.reap()?;
            return Err(error);
        }
        Ok(process)
    }

    /// The next event, or none if there is none before `deadline`.
    #[cfg(unix)]
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Option<Event> {
        self.receive(deadline)
    }

    /// The next event, or none if there is none before `deadline`. Without a way
    /// to wait for a process beside events, it is looked at now and then.
    #[cfg(not(unix))]
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Option<Event> {
        const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(20);
        loop {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Some(Event::Exited);
            }
            let look_at = Instant::now() + BETWEEN_LOOKS;
            let until = deadline.map_or(look_at, |deadline| deadline.min(look_at));
            let event = self.receive(Some(until));
            if event.is_some() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return event;
            }
        }
    }

    fn receive(&self, deadline: Option<Instant>) -> Option<Event> {
        let received = match deadline {
            Some(deadline) => {
                self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            }
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // The watching thread always speaks before it goes.
            Err(RecvTimeoutError::Disconnected) => Some(Event::Exited),
        }
    }

    /// Asks the whole group to end.
    pub fn terminate(&mut self) {
        system::signal(&mut self.child, false);
    }

    /// Ends the whole group.
    pub fn kill(&mut self) {
        system::signal(&mut self.child, true);
    }

    /// Takes the status of a program that has ended, which frees its process number.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// The signal that ended the program, on systems with signals.
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    system::signal_of(status)
}

/// Advice for an error of the system that kept a program from running.
pub fn advice(error: &io::Error) -> Option<&'static str> {
    system::advice(error)
}
