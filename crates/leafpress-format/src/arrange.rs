//! A finished database, arranged for readers at a distance.
//!
//! Such a reader pays for each request more than for its bytes. So the pages that every lookup needs
//! come first and in one run, and what is read together lies together:
//!
//! ```text
//! 1 │ roots │ rest of the schema │ other interior pages │ their chains │ leaf, its chains │ leaf │ …
//! └──────── the front: fetched by one request ──────────┘               in key order, tree by tree
//! ```
//!
//! Interior pages stand by level, the highest first. The rest of a payload is on neighbouring pages,
//! so that one request has all of it. Nothing else changes: each page keeps its cells, and readers
//! need not know. Only the schema is made anew, as it names the roots. Pages of no tree are left out.
//!
//! Must never: trust the file. A malformed one gives an error, not a panic, a loop or a page
//! written twice.
//!
//! Invariants:
//! 1. A page gets its role, and its new number, once; a second page that names it is an error.
//! 2. Interior pages are written last: only then all pages have their new numbers.

use crate::finished::FinishedPages;
use crate::free::FreePages;
use crate::header::write_database_header;
use crate::layout::{PAGE_NUMBER_BYTES, PageKind, PageLayout};
use crate::numbers::{PageNumbers, PageRange};
use crate::relocate::{DEPTH_MAX, RelocateError, Role, Roles, malformed};
use crate::schema::{SchemaEntry, press_schema};
use crate::slots::{Slot, cell_count, chain_of, find_slots, is_leaf, page_number};

/// The largest page of SQLite's format.
const PAGE_BYTES_MAX: u32 = 65536;
/// Limit of the leaves that are looked at for the page size.
const SAMPLED_LEAVES_MAX: usize = 512;
/// One cell in so many may need overflow pages that a larger page would spare it.
const CELLS_FOR_ONE_OVERFLOW: u64 = 100;

/// The trees of a database, found and not yet written. Memory is about nine bytes a page.
#[derive(Debug)]
pub struct Arrangement<R> {
    layout: PageLayout,
    page_count: u32,
    read_page: R,
    roles: Roles,
    roots: Vec<u32>,
    /// Interior pages that are no roots, by level in each tree.
    interior: Vec<u32>,
    /// Leaves that are no roots, in key order, tree by tree.
    leaves: Vec<u32>,
    page: Vec<u8>,
    /// The slots of the current page.
    slots: Vec<Slot>,
}

type Outcome<T, E> = Result<T, RelocateError<E>>;

impl<E, R: FnMut(u32, &mut [u8]) -> Result<(), E>> Arrangement<R> {
    /// Finds the trees with these roots. Reads the interior pages by `read_page`, which gets the number
    /// of a page and room for all of it.
    ///
    /// # Errors
    ///
    /// Those of `read_page`, and [`RelocateError::Malformed`].
    pub fn find(
        layout: PageLayout,
        page_count: u32,
        roots: &[u32],
        read_page: R,
    ) -> Outcome<Self, E> {
        let mut found = Self {
            layout,
            page_count,
            read_page,
            roles: Roles::new(page_count, layout.lock_byte_page()),
            roots: roots.to_vec(),
            interior: Vec::new(),
            leaves: Vec::new(),
            page: vec![0; layout.page_bytes()],
            slots: Vec::new(),
        };
        for &root in roots {
            found.find_tree(root)?;
        }
        Ok(found)
    }

    fn find_tree(&mut self, root: u32) -> Outcome<(), E> {
        let mut level = vec![root];
        let mut parent = root;
        for depth in 0..DEPTH_MAX {
            let Some(&first) = level.first() else { break };
            if first < 2 || first > self.page_count {
                return Err(malformed(parent, "it names a page that no tree can have"));
            }
            self.read(first)?;
            let role = if is_leaf(&self.page) { Role::Leaf } else { Role::Interior };
            for &page in &level {
                self.roles.set(page, role).map_err(|problem| malformed(page, problem))?;
            }
            let mut below = Vec::new();
            if role == Role::Interior {
                for &page in &level {
                    self.read_tree_page(page, role)?;
                    below.extend(self.slots.iter().filter(|it| it.is_child).map(|it| it.target));
                }
            }
            match role {
                _ if depth == 0 => {}
                Role::Leaf => self.leaves.append(&mut level),
                _ => self.interior.append(&mut level),
            }
            parent = first;
            level = below;
        }
        if level.is_empty() { Ok(()) } else { Err(malformed(root, "the tree is deeper than any")) }
    }

    /// The page size with which nearly all rows and entries would need no overflow pages: that of
    /// the database, or a larger one. Payloads that fit no page do not count. Looks at leaves that
    /// lie evenly in the database.
    ///
    /// # Errors
    ///
    /// Those of `read_page`, and [`RelocateError::Malformed`].
    pub fn fitting_page_bytes(&mut self) -> Outcome<u32, E> {
        let leaves = [self.roots.as_slice(), &self.leaves].concat();
        let step = leaves.len().div_ceil(SAMPLED_LEAVES_MAX).max(1);
        let (mut cells, mut overflowing) = (0, Vec::new());
        for &page in leaves.iter().step_by(step) {
            self.read(page)?;
            let kind = self.find_slots(page)?;
            cells += cell_count(&self.page) as u64;
            let payloads = self.slots.iter().filter(|slot| !slot.is_child);
            overflowing.extend(payloads.map(|slot| (kind, slot.payload_bytes)));
        }
        let fits = |page_bytes, &(kind, payload_bytes): &(PageKind, u64)| {
            PageLayout::with_reserved(page_bytes, self.layout.reserved_bytes())
                .is_ok_and(|layout| payload_bytes <= layout.local_bytes_max(kind) as u64)
        };
        overflowing.retain(|payload| fits(PAGE_BYTES_MAX, payload));
        let mut page_bytes = self.layout.page_bytes() as u32;
        while page_bytes < PAGE_BYTES_MAX {
            let too_long = overflowing.iter().filter(|payload| !fits(page_bytes, payload)).count();
            if too_long as u64 * CELLS_FOR_ONE_OVERFLOW <= cells {
                break;
            }
            page_bytes *= 2;
        }
        Ok(page_bytes)
    }

    /// Writes the arranged database and gives the entries of the schema their new roots: `schema`
    /// has all rows of the database's, in order. `write` takes pages, each with its number. Returns the
    /// number of pages.
    ///
    /// # Errors
    ///
    /// Those of `read_page` and `write`, [`RelocateError::Malformed`] and [`RelocateError::Format`]. The pages written by
    /// then are no database.
    pub fn write(
        mut self,
        schema: &mut [SchemaEntry],
        mut write: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Outcome<u32, E> {
        let mut numbers = PageNumbers::new(self.layout);
        let mut new = vec![0; self.page_count as usize + 1];
        let roots = std::mem::take(&mut self.roots);
        for &root in &roots {
            new[root as usize] = numbers.take().map_err(RelocateError::Format)?;
        }
        for entry in schema.iter_mut().filter(|entry| entry.root_page != 0) {
            entry.root_page = new.get(entry.root_page as usize).copied().unwrap_or_default();
        }
        let mut finished = FinishedPages::new(self.layout);
        let pressed = press_schema(self.layout, schema, &mut numbers, &mut finished);
        let mut page_1 = pressed.map_err(RelocateError::Format)?;
        let (interior, leaves) =
            (std::mem::take(&mut self.interior), std::mem::take(&mut self.leaves));
        for &page in &interior {
            new[page as usize] = numbers.take().map_err(RelocateError::Format)?;
        }
        // The chains of interior pages, in their order: they are written with the pages again.
        let mut interior_chains = Vec::new();
        for &page in roots.iter().chain(&interior) {
            if self.roles.get(page) == Role::Interior {
                self.read_tree_page(page, Role::Interior)?;
                self.take_chains(page, &mut numbers, &mut interior_chains)?;
            }
        }
        for &page in roots.iter().chain(&leaves) {
            if self.roles.get(page) == Role::Leaf {
                self.write_leaf(page, &mut numbers, &mut new, &mut write)?;
            }
        }
        let mut chains = interior_chains.into_iter();
        for &page in roots.iter().chain(&interior) {
            if self.roles.get(page) == Role::Interior {
                self.write_interior(page, &new, &mut chains, &mut write)?;
            }
        }
        for (first, pages) in finished.pieces() {
            for (number, page) in (first..).zip(pages.chunks_exact(self.layout.page_bytes())) {
                write(number, page).map_err(RelocateError::Mover)?;
            }
        }
        let page_count = numbers.page_count();
        write_database_header(&mut page_1, self.layout, page_count, FreePages::default());
        write(1, &page_1).map_err(RelocateError::Mover)?;
        Ok(page_count)
    }

    /// Writes a leaf, and the chains of its cells right behind it.
    fn write_leaf(
        &mut self,
        page: u32,
        numbers: &mut PageNumbers,
        new: &mut [u32],
        write: &mut impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Outcome<(), E> {
        self.read_tree_page(page, Role::Leaf)?;
        if new[page as usize] == 0 {
            new[page as usize] = numbers.take().map_err(RelocateError::Format)?;
        }
        let new_number = new[page as usize];
        if self.slots.is_empty() {
            return write(new_number, &self.page).map_err(RelocateError::Mover);
        }
        let mut chains = Vec::new();
        self.take_chains(page, numbers, &mut chains)?;
        let heads: Vec<Slot> = self.slots.clone();
        for (slot, chain) in heads.iter().zip(&chains) {
            self.put(slot.at, chain.number(0));
        }
        write(new_number, &self.page).map_err(RelocateError::Mover)?;
        for (slot, chain) in heads.iter().zip(&chains) {
            self.write_chain(page, slot, chain, write)?;
        }
        Ok(())
    }

    /// Writes an interior page with the new numbers of its children, and its chains.
    fn write_interior(
        &mut self,
        page: u32,
        new: &[u32],
        chains: &mut impl Iterator<Item = PageRange>,
        write: &mut impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Outcome<(), E> {
        self.read_tree_page(page, Role::Interior)?;
        let mut heads = Vec::new();
        for index in 0..self.slots.len() {
            let slot = self.slots[index];
            let number = if slot.is_child {
                new.get(slot.target as usize).copied()
            } else {
                let chain = chains.next();
                heads.extend(chain.map(|chain| (slot, chain)));
                chain.map(|chain| chain.number(0))
            };
            let changed = || malformed(page, "it has changed meanwhile");
            self.put(slot.at, number.ok_or_else(changed)?);
        }
        let new_number = new[page as usize];
        write(new_number, &self.page).map_err(RelocateError::Mover)?;
        for (slot, chain) in heads {
            self.write_chain(page, &slot, &chain, write)?;
        }
        Ok(())
    }

    /// Takes numbers for the chains of the page at hand, each in one piece.
    fn take_chains(
        &mut self,
        page: u32,
        numbers: &mut PageNumbers,
        chains: &mut Vec<PageRange>,
    ) -> Outcome<(), E> {
        let kind = self.find_slots(page)?;
        for slot in self.slots.iter().filter(|slot| !slot.is_child) {
            let pages = chain_of(self.layout, kind, slot).filter(|&pages| pages < self.page_count);
            let pages =
                pages.ok_or_else(|| malformed(page, "a payload is longer than the file"))?;
            chains.push(numbers.take_range(pages).map_err(RelocateError::Format)?);
        }
        Ok(())
    }

    /// Writes the pages of a chain under their new numbers. `owner` is the page that names the first.
    fn write_chain(
        &mut self,
        owner: u32,
        head: &Slot,
        chain: &PageRange,
        write: &mut impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Outcome<(), E> {
        let (mut page, mut named_by) = (head.target, owner);
        for index in 0..chain.pages() {
            let set = self.roles.set(page, Role::Overflow);
            set.map_err(|problem| malformed(named_by, problem))?;
            self.read(page)?;
            let next = page_number(&self.page, 0);
            let is_last = index + 1 == chain.pages();
            if is_last != (next == 0) {
                return Err(malformed(page, "its chain is not as long as its payload"));
            }
            self.put(0, if is_last { 0 } else { chain.number(index + 1) });
            write(chain.number(index), &self.page).map_err(RelocateError::Mover)?;
            (named_by, page) = (page, next);
        }
        Ok(())
    }

    fn put(&mut self, at: usize, number: u32) {
        self.page[at..at + PAGE_NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    }

    fn read(&mut self, page: u32) -> Outcome<(), E> {
        (self.read_page)(page, &mut self.page).map_err(RelocateError::Mover)
    }

    fn find_slots(&mut self, page: u32) -> Outcome<PageKind, E> {
        find_slots(self.layout, &self.page, &mut self.slots)
            .map_err(|problem| malformed(page, problem))
    }

    /// Reads a page and finds its slots; it must be what its parent says.
    fn read_tree_page(&mut self, page: u32, role: Role) -> Outcome<(), E> {
        self.read(page)?;
        if is_leaf(&self.page) != (role == Role::Leaf) {
            return Err(malformed(page, "it lies at another depth than its neighbours"));
        }
        self.find_slots(page).map(drop)
    }
}
