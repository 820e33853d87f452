package ops

import (
	"context"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// The time and the number of columns of a GetHeat without them.
const (
	defaultHeatTime    = time.Hour
	defaultHeatColumns = 240
)

func (s *Service) getHeat(_ context.Context, in *api.GetHeat) (*api.GetHeatReply, error) {
	to := s.DB.Now()
	if in.EndTime != nil {
		to = in.EndTime.Time
	}
	from, most := to.Add(-defaultHeatTime), defaultHeatColumns
	if in.StartTime != nil {
		from = in.StartTime.Time
	}
	if in.MaxColumns != nil {
		most = int(*in.MaxColumns)
	}
	if !from.Before(to) {
		return nil, apierror.Validation("StartTime must be before EndTime")
	}
	index := stringOf(in.IndexName)
	found, err := s.DB.Heat(in.TableName, index, from, to, most)
	if err != nil {
		return nil, err
	}
	reply := &api.GetHeatReply{TableName: in.TableName, IndexName: index, Ranges: meter.HashRanges, Minutes: int(found.Step / time.Minute),
		Columns: []api.HeatColumn{}, KeptFrom: api.TimeOf(found.Kept), Counted: found.Counted, Partitions: found.Borders(), Throttled: found.Throttled,
		PartitionReadUnits: partition.MaxRead, PartitionWriteUnits: partition.MaxWrite}
	for i := range found.Columns {
		reply.Columns = append(reply.Columns, heatColumn(&found.Columns[i]))
	}
	return reply, nil
}

// heatBytes is the memory that a request for heat needs: each range of a column has up to five numbers, in the
// counts, in the reply and in its text.
func heatBytes(in *api.GetHeat) int64 {
	most := int64(defaultHeatColumns)
	if in.MaxColumns != nil {
		most = int64(*in.MaxColumns)
	}
	return (most + 1) * meter.HashRanges * 5 * (8 + 8 + 10)
}

func heatColumn(c *meter.HeatColumn) api.HeatColumn {
	column := api.HeatColumn{Start: api.TimeOf(c.Start), Minutes: int(c.Length / time.Minute), Ranges: []int{}, ReadUnits: []float64{}, WriteUnits: []float64{}}
	var throttled [2]int64
	for i := range c.Cells {
		cell := &c.Cells[i]
		column.Ranges = append(column.Ranges, cell.Range)
		column.ReadUnits = append(column.ReadUnits, cell.Units(meter.ReadUnits))
		column.WriteUnits = append(column.WriteUnits, cell.Units(meter.WriteUnits))
		throttled[meter.ReadUnits] += cell.Throttled[meter.ReadUnits]
		throttled[meter.WriteUnits] += cell.Throttled[meter.WriteUnits]
	}
	throttles := func(kind meter.UnitKind) (all []int64) {
		if throttled[kind] > 0 {
			for i := range c.Cells {
				all = append(all, c.Cells[i].Throttled[kind])
			}
		}
		return all
	}
	column.ReadThrottles, column.WriteThrottles = throttles(meter.ReadUnits), throttles(meter.WriteUnits)
	return column
}

func (s *Service) getShapes(_ context.Context, in *api.GetShapes) (*api.GetShapesReply, error) {
	report := s.Shapes()
	if in.LastHour != nil && *in.LastHour {
		report = s.workload.LastHour(s.DB.Now())
	}
	reply := &api.GetShapesReply{Since: report.Since.UTC().Format(time.RFC3339Nano), Shapes: []api.ShapeCount{}, Other: shapeCount(&report.Other)}
	for i := range report.Shapes {
		reply.Shapes = append(reply.Shapes, shapeCount(&report.Shapes[i]))
	}
	return reply, nil
}

func shapeCount(c *workload.ShapeCount) api.ShapeCount {
	return api.ShapeCount{Shape: api.Shape(c.Shape), Requests: c.Requests, Returned: c.Returned, Scanned: c.Scanned, Units: c.Units, Measured: c.Measured}
}
