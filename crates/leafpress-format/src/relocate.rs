//! Trees moved to other page numbers. They are those of a finished file.
//!
//! Trees that are pressed beside an existing database are moved into it page by page. Only the
//! numbers by which pages name one another change:
//!
//! | page | numbers in it |
//! |---|---|
//! | interior | left child of each cell, right-most child |
//! | leaf, index interior | first overflow page of each cell whose payload overflows |
//! | overflow | next page of its chain |
//!
//! An overflow page cannot be told from its bytes, so roles are found by walking from the roots.
//! The walk takes the interior pages first: they name all leaves. Then it takes every page in
//! ascending order, as a page of a pressed file nearly always names overflow pages behind it; an
//! overflow page that lies before the page that names it is moved right after that page.
//!
//! Must never: trust the file. A malformed one gives an error, not a panic, a loop or a page
//! written twice.
//!
//! Invariants:
//! 1. A page gets its role once; a second page that names it is an error.
//! 2. Pages up to the cursor are moved or have no role; a page that gets its
//!    role behind the cursor is moved before the cursor goes on.

use crate::error::FormatError;
use crate::layout::{PAGE_NUMBER_BYTES, PageKind, PageLayout};
use crate::slots::{Slot, find_slots, is_leaf, page_number};
use std::fmt;

/// Deeper trees than SQLite's cursors climb (`BTCURSOR_MAX_DEPTH`) are a loop.
pub(crate) const DEPTH_MAX: u32 = 20;

/// The source and the target of a move, and the new numbers of the pages.
pub trait PageMover {
    /// The mover's own error.
    type Error;

    /// Reads a whole page of the file.
    ///
    /// # Errors
    ///
    /// The mover's own; they end the move.
    fn read(&mut self, page: u32, into: &mut [u8]) -> Result<(), Self::Error>;

    /// The number that a page is to have. No two pages may get the same.
    fn new_number(&self, page: u32) -> u32;

    /// Takes a page under its new number.
    ///
    /// # Errors
    ///
    /// The mover's own; they end the move.
    fn write(&mut self, new_number: u32, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Called once for each page, with the page that names it: the entry of an auto-vacuum
    /// database's pointer map. All numbers are new ones.
    fn owned_by(&mut self, _new_number: u32, _owner: PageOwner) {}
}

/// The page that names a page, as the entries of a pointer map have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOwner {
    /// None: a root, which the schema names.
    Root,
    /// The page of the cell whose payload overflows there.
    Cell(u32),
    /// The page before it in an overflow chain.
    Chain(u32),
    /// Its parent in the tree.
    Parent(u32),
}

/// The reason why trees could not be moved. The pages written by then are not a whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelocateError<E> {
    /// The mover's own error.
    Mover(E),
    /// A limit of the format, met by the pages that are made anew.
    Format(FormatError),
    /// The file is not one that SQLite or this crate writes.
    Malformed {
        /// The page that says so.
        page: u32,
        /// The problem with that page.
        problem: &'static str,
    },
}

impl<E: fmt::Display> fmt::Display for RelocateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mover(error) => error.fmt(f),
            Self::Format(error) => error.fmt(f),
            Self::Malformed { page, problem } => {
                write!(f, "page {page} of the pressed file is malformed: {problem}")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for RelocateError<E> {}

/// Moves the trees with these roots, and returns how many pages they have.
///
/// Each page is read and written once, but interior pages are read twice.
/// Reads and writes ascend where the file allows it. Memory is two bits a page
/// of the file.
///
/// The pages keep their layout: they belong into a file of the same page size
/// and reserved bytes. Page 1 cannot be moved.
///
/// # Errors
///
/// The mover's, and [`RelocateError::Malformed`].
pub fn relocate<M: PageMover>(
    layout: PageLayout,
    page_count: u32,
    roots: &[u32],
    mover: &mut M,
) -> Result<u32, RelocateError<M::Error>> {
    let mut walk = Walk {
        layout,
        mover,
        roles: Roles::new(page_count, layout.lock_byte_page()),
        page: vec![0; layout.page_bytes()],
        slots: Vec::new(),
        behind: Vec::new(),
        moved: 0,
    };
    for &root in roots {
        walk.find_tree(root)?;
    }
    for page in 2..=page_count {
        if walk.roles.get(page) != Role::None {
            walk.move_page(page, page)?;
            while let Some(behind) = walk.behind.pop() {
                walk.move_page(behind, page)?;
            }
        }
    }
    Ok(walk.moved)
}

/// The role of a page, as far as the walk knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    None = 0,
    Interior = 1,
    Leaf = 2,
    Overflow = 3,
}

/// Two bits a page.
#[derive(Debug)]
pub(crate) struct Roles {
    bits: Vec<u8>,
    page_count: u32,
    lock_byte_page: u32,
}

impl Roles {
    pub fn new(page_count: u32, lock_byte_page: u32) -> Self {
        Self { bits: vec![0; page_count as usize / 4 + 1], page_count, lock_byte_page }
    }

    pub fn get(&self, page: u32) -> Role {
        match self.bits[page as usize / 4] >> (page % 4 * 2) & 3 {
            0 => Role::None,
            1 => Role::Interior,
            2 => Role::Leaf,
            _ => Role::Overflow,
        }
    }

    fn has_role(&self, page: u32) -> bool {
        page <= self.page_count && self.get(page) != Role::None
    }

    /// Gives a page its role (invariant 1), or says why it cannot have it.
    pub fn set(&mut self, page: u32, role: Role) -> Result<(), &'static str> {
        if page < 2 || page > self.page_count || page == self.lock_byte_page {
            return Err("it names a page that no tree can have");
        }
        if self.get(page) != Role::None {
            return Err("it names a page that belongs elsewhere");
        }
        self.bits[page as usize / 4] |= (role as u8) << (page % 4 * 2);
        Ok(())
    }
}

struct Walk<'m, M> {
    layout: PageLayout,
    mover: &'m mut M,
    roles: Roles,
    page: Vec<u8>,
    /// The slots of the current page.
    slots: Vec<Slot>,
    /// Overflow pages that have their role since the cursor was past them.
    behind: Vec<u32>,
    moved: u32,
}

impl<M: PageMover> Walk<'_, M> {
    fn read(&mut self, page: u32) -> Result<(), RelocateError<M::Error>> {
        self.mover.read(page, &mut self.page).map_err(RelocateError::Mover)
    }

    fn set_role(
        &mut self,
        page: u32,
        role: Role,
        named_by: u32,
    ) -> Result<(), RelocateError<M::Error>> {
        self.roles.set(page, role).map_err(|problem| malformed(named_by, problem))
    }

    /// Gives all interior pages and leaves of a tree their roles, and the
    /// overflow pages that interior pages name.
    fn find_tree(&mut self, root: u32) -> Result<(), RelocateError<M::Error>> {
        let height = self.find_height(root)?;
        let role = |height: u32| if height == 0 { Role::Leaf } else { Role::Interior };
        self.set_role(root, role(height), root)?;
        let new_root = self.mover.new_number(root);
        self.mover.owned_by(new_root, PageOwner::Root);
        let mut interior = Vec::from_iter((height > 0).then_some((root, height)));
        while let Some((page, height)) = interior.pop() {
            self.read_tree_page(page, Role::Interior)?;
            for index in 0..self.slots.len() {
                let Slot { target, is_child, .. } = self.slots[index];
                if !is_child {
                    self.set_role(target, Role::Overflow, page)?;
                    continue;
                }
                self.set_role(target, role(height - 1), page)?;
                if height > 1 {
                    interior.push((target, height - 1));
                }
            }
        }
        Ok(())
    }

    /// Levels above the leaves, which all lie equally deep.
    fn find_height(&mut self, root: u32) -> Result<u32, RelocateError<M::Error>> {
        let mut page = root;
        for height in 0..DEPTH_MAX {
            if page < 2 || page > self.roles.page_count {
                return Err(malformed(root, "its first pages lead to one that no tree can have"));
            }
            self.read(page)?;
            if is_leaf(&self.page) {
                return Ok(height);
            }
            self.find_slots().map_err(|problem| malformed(page, problem))?;
            match self.slots.first() {
                Some(slot) => page = slot.target,
                None => return Err(malformed(page, "it has no child")),
            }
        }
        Err(malformed(root, "the tree is deeper than any"))
    }

    /// Reads a page and finds its slots; it must be what its parent says.
    fn read_tree_page(&mut self, page: u32, role: Role) -> Result<(), RelocateError<M::Error>> {
        self.read(page)?;
        let kind = self.find_slots().map_err(|problem| malformed(page, problem))?;
        let is_interior = matches!(kind, PageKind::IndexInterior | PageKind::TableInterior);
        if is_interior != (role == Role::Interior) {
            return Err(malformed(page, "it lies at another depth than its neighbours"));
        }
        Ok(())
    }

    fn find_slots(&mut self) -> Result<PageKind, &'static str> {
        find_slots(self.layout, &self.page, &mut self.slots)
    }

    /// Moves a page; `cursor` is where the ascending pass is.
    fn move_page(&mut self, page: u32, cursor: u32) -> Result<(), RelocateError<M::Error>> {
        let role = self.roles.get(page);
        if role == Role::Overflow {
            self.read(page)?;
            self.slots.clear();
            let target = page_number(&self.page, 0);
            if target != 0 {
                self.slots.push(Slot::next_of_chain(target));
            }
        } else {
            self.read_tree_page(page, role)?;
        }
        let new_number = self.mover.new_number(page);
        for index in 0..self.slots.len() {
            let Slot { at, target, is_child, .. } = self.slots[index];
            if role != Role::Interior {
                self.set_role(target, Role::Overflow, page)?;
                if target < cursor {
                    self.behind.push(target);
                }
            } else if !self.roles.has_role(target) {
                return Err(malformed(page, "it has changed meanwhile"));
            }
            let new_target = self.mover.new_number(target);
            self.page[at..at + PAGE_NUMBER_BYTES].copy_from_slice(&new_target.to_be_bytes());
            let owner = match (role, is_child) {
                (Role::Overflow, _) => PageOwner::Chain(new_number),
                (_, false) => PageOwner::Cell(new_number),
                (_, true) => PageOwner::Parent(new_number),
            };
            self.mover.owned_by(new_target, owner);
        }
        self.moved += 1;
        self.mover.write(new_number, &self.page).map_err(RelocateError::Mover)
    }
}

pub(crate) fn malformed<E>(page: u32, problem: &'static str) -> RelocateError<E> {
    RelocateError::Malformed { page, problem }
}
