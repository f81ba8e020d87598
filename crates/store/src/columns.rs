//! Reads one row of a result column by column, in the order of the SELECT, for both databases.

use std::borrow::Cow;
use std::str::FromStr;

use codelab_protocol::{Digest, ProjectId, Timestamp, TurnId, UserId};

use crate::StoreError;

pub(crate) type Decode<T> = fn(&mut Columns<'_>) -> Result<T, StoreError>;

enum Source<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

pub(crate) struct Columns<'a> {
    source: Source<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    pub fn sqlite(row: &'a rusqlite::Row<'a>) -> Self {
        Self {
            source: Source::Sqlite(row),
            next: 0,
        }
    }

    pub fn postgres(row: &'a tokio_postgres::Row) -> Self {
        Self {
            source: Source::Postgres(row),
            next: 0,
        }
    }

    pub fn optional_int(&mut self) -> Result<Option<i64>, StoreError> {
        let index = self.advance();
        match self.source {
            Source::Sqlite(row) => row.get(index).map_err(|_| unreadable(index)),
            Source::Postgres(row) => row.try_get(index).map_err(|_| unreadable(index)),
        }
    }

    pub fn optional_text(&mut self) -> Result<Option<Cow<'a, str>>, StoreError> {
        let index = self.advance();
        match self.source {
            Source::Sqlite(row) => {
                let value = row.get_ref(index).map_err(|_| unreadable(index))?;
                Ok(value
                    .as_str_or_null()
                    .map_err(|_| unreadable(index))?
                    .map(Cow::Borrowed))
            }
            Source::Postgres(row) => {
                let text: Option<&'a str> = row.try_get(index).map_err(|_| unreadable(index))?;
                Ok(text.map(crate::postgres::text::decode))
            }
        }
    }

    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        let index = self.advance();
        match self.source {
            Source::Sqlite(row) => row.get(index).map_err(|_| unreadable(index)),
            Source::Postgres(row) => row.try_get(index).map_err(|_| unreadable(index)),
        }
    }

    pub fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let index = self.advance();
        match self.source {
            Source::Sqlite(row) => row.get(index).map_err(|_| unreadable(index)),
            Source::Postgres(row) => row.try_get(index).map_err(|_| unreadable(index)),
        }
    }

    pub fn int(&mut self) -> Result<i64, StoreError> {
        self.optional_int()?.ok_or_else(|| self.invalid())
    }

    pub fn text(&mut self) -> Result<Cow<'a, str>, StoreError> {
        self.optional_text()?.ok_or_else(|| self.invalid())
    }

    pub fn string(&mut self) -> Result<String, StoreError> {
        self.text().map(Cow::into_owned)
    }

    pub fn optional_string(&mut self) -> Result<Option<String>, StoreError> {
        Ok(self.optional_text()?.map(Cow::into_owned))
    }

    pub fn count(&mut self) -> Result<u64, StoreError> {
        let number = self.int()?;
        u64::try_from(number).map_err(|_| self.invalid())
    }

    pub fn optional_count(&mut self) -> Result<Option<u64>, StoreError> {
        let number = self.optional_int()?;
        number
            .map(|number| u64::try_from(number).map_err(|_| self.invalid()))
            .transpose()
    }

    /// A number that fits 32 bits.
    pub fn small(&mut self) -> Result<u32, StoreError> {
        self.optional_small()?.ok_or_else(|| self.invalid())
    }

    pub fn optional_small(&mut self) -> Result<Option<u32>, StoreError> {
        let number = self.optional_int()?;
        number
            .map(|number| u32::try_from(number).map_err(|_| self.invalid()))
            .transpose()
    }

    pub fn project(&mut self) -> Result<ProjectId, StoreError> {
        let number = self.int()?;
        ProjectId::new(number).ok_or_else(|| self.invalid())
    }

    pub fn optional_project(&mut self) -> Result<Option<ProjectId>, StoreError> {
        let number = self.optional_int()?;
        number
            .map(|number| ProjectId::new(number).ok_or_else(|| self.invalid()))
            .transpose()
    }

    pub fn user(&mut self) -> Result<UserId, StoreError> {
        self.optional_user()?.ok_or_else(|| self.invalid())
    }

    pub fn optional_user(&mut self) -> Result<Option<UserId>, StoreError> {
        let number = self.optional_int()?;
        number
            .map(|number| UserId::new(number).ok_or_else(|| self.invalid()))
            .transpose()
    }

    /// A text of `protocol`'s ids.
    pub fn id<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.parsed(|text| text.parse().ok())
    }

    pub fn optional_id<T: FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        self.optional_parsed(|text| text.parse().ok())
    }

    pub fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.int()? != 0)
    }

    pub fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_millis)
    }

    pub fn optional_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_int()?.map(Timestamp::from_millis))
    }

    pub fn turn(&mut self) -> Result<TurnId, StoreError> {
        self.count().map(TurnId)
    }

    pub fn digest(&mut self) -> Result<Digest, StoreError> {
        Ok(Digest::from_wire(&self.text()?))
    }

    pub fn optional_digest(&mut self) -> Result<Option<Digest>, StoreError> {
        Ok(self.optional_text()?.map(|text| Digest::from_wire(&text)))
    }

    /// A text that encodes a value, such as a status.
    pub fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        let text = self.text()?;
        parse(&text).ok_or_else(|| self.invalid())
    }

    pub fn optional_parsed<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        match self.optional_text()? {
            None => Ok(None),
            Some(text) => parse(&text).map(Some).ok_or_else(|| self.invalid()),
        }
    }

    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        self.parsed(|text| serde_json::from_str(text).ok())
    }

    pub fn optional_json<T: serde::de::DeserializeOwned>(
        &mut self,
    ) -> Result<Option<T>, StoreError> {
        self.optional_parsed(|text| serde_json::from_str(text).ok())
    }

    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn invalid(&self) -> StoreError {
        unreadable(self.next - 1)
    }
}

fn unreadable(index: usize) -> StoreError {
    StoreError::Corrupt(format!("column {index} of a row holds no valid value"))
}
