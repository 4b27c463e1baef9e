//! What systems do differently.

/// What shells for this system need no quotes for, beside letters and digits.
pub(crate) const BARE: &[u8] = if cfg!(windows) { b"_-./\\:=+" } else { b"_-./,:=@%+" };

/// Whether a backslash separates the parts of a path.
pub(crate) const BACKSLASH_SEPARATES: bool = cfg!(windows);

/// What a shell takes input from that is to be empty.
pub const NO_INPUT: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };
