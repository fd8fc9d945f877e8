"""1 · May it enter? What a submission must satisfy before it becomes a job. Pure checks; the World applies the answer."""
