"""Who changed what, when and from where: one row for every successful write of a person, over the API or the pages."""
