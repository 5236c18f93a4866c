//! How the rows of a sequence become one.

/// How the rows of a sequence become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Every token keeps its row.
    None,
    /// The mean of all rows.
    Mean,
    /// The first token's row.
    Cls,
    /// The last token's row.
    Last,
    /// What the model's classifier makes of one row: the first, or the last where tokens see no later one.
    Rank,
}

impl Pooling {
    /// Every kind with its name, in the order of the numbers in files, from 0.
    pub const ALL: [(&'static str, Pooling); 5] = [
        ("none", Pooling::None),
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("last", Pooling::Last),
        ("rank", Pooling::Rank),
    ];

    /// The number in files.
    pub fn number(self) -> u32 {
        let place = Self::ALL.iter().position(|(_, kind)| *kind == self);
        place.unwrap_or(0) as u32 // one of five
    }

    /// The kind of this name.
    pub fn by_name(name: &str) -> Option<Pooling> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(known, kind)| (known == name).then_some(kind))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL[self.number() as usize].0
    }
}
