module github.com/stator-db/stator/packages/build

go 1.26
