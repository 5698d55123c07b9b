//! Files of more than 1 GiB.
