module github.com/stator-db/stator/differ

go 1.26.0
