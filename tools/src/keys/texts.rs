//! The texts that were taken out of one record.

/// Several texts, one after the other, in memory that is used for each record again.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    pub(super) bytes: Vec<u8>,
    /// Where each of them ends.
    pub(super) ends: Vec<usize>,
}

impl Texts {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| &self[number])
    }

    /// Leaves out the texts that are empty.
    pub(super) fn drop_empty(&mut self) {
        let mut before = 0;
        self.ends.retain(|&end| std::mem::replace(&mut before, end) != end);
    }
}

/// The text of a number; there must be one.
impl std::ops::Index<usize> for Texts {
    type Output = [u8];

    fn index(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }
}
