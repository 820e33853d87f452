package api

// GetHeat asks what a table, or a global index, has consumed by hash range. DynamoDB does not
// have it, nor the other operation of this file.
type GetHeat struct {
	TableName  string  `must:"present,table"`
	IndexName  *string `must:"minlen=3,maxlen=255"`
	StartTime  *Time   // defaults to an hour ago
	EndTime    *Time   // defaults to now
	MaxColumns *int32  `must:"min=1,max=400"` // defaults to 240
}

// GetHeatReply answers a GetHeat. The hashes are divided into Ranges equal ranges.
type GetHeatReply struct {
	TableName  string
	IndexName  string
	Ranges     int
	Minutes    int          // that a column has; older ones may have more
	Columns    []HeatColumn `reply:"always"` // that have values
	KeptFrom   *Time        // earlier columns are not kept
	Counted    bool         `reply:"always"` // false if the server does not count the table by hash range
	Partitions []float64    `reply:"always"` // where each begins, from 0 to 1
	Throttled  bool         `reply:"always"` // false if the limits of the partitions do not apply

	// What a partition serves per second.
	PartitionReadUnits  int64
	PartitionWriteUnits int64
}

// HeatColumn is what was consumed in some minutes: for each of its ranges, one element of the
// lists that follow.
type HeatColumn struct {
	Start          *Time
	Minutes        int
	Ranges         []int     `reply:"always"`
	ReadUnits      []float64 `reply:"always"`
	WriteUnits     []float64 `reply:"always"`
	ReadThrottles  []int64   // none if it is absent
	WriteThrottles []int64
}

// GetShapes asks for the requests that the server has counted by shape.
type GetShapes struct {
	// LastHour asks for those of the last hour, in steps of five minutes, in place of those since
	// the start or the last reset.
	LastHour *bool
}

// GetShapesReply answers a GetShapes. It is the document of the path /shapes.
type GetShapesReply struct {
	Since  string       `name:"since"`
	Shapes []ShapeCount `name:"shapes" reply:"always"`
	Other  ShapeCount   `name:"other"` // requests of all further shapes
}

// Shape is what requests have in common that differ only in their values.
type Shape struct {
	Operation     string `name:"operation"`
	Table         string `name:"table"`
	Index         string `name:"index"`
	Form          string `name:"form"`
	Partition     string `name:"partition"`
	Sort          string `name:"sort"`
	Actions       string `name:"actions"`
	Filter        bool   `name:"filter"`
	Condition     bool   `name:"condition"`
	Consistent    bool   `name:"consistent"`
	Statement     bool   `name:"statement"`
	FilterText    string `name:"filterText"`
	ConditionText string `name:"conditionText"`
	Projection    string `name:"projection"`
	Changes       string `name:"changes"`
}

// ShapeCount is the requests of one shape.
type ShapeCount struct {
	Shape
	Requests int64   `name:"requests" reply:"always"`
	Returned int64   `name:"returned" reply:"always"`
	Scanned  int64   `name:"scanned" reply:"always"`
	Units    float64 `name:"units" reply:"always"`
	Measured int64   `name:"measured" reply:"always"`
}
