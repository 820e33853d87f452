module github.com/stator-db/stator/packages/sidebyside

go 1.26
