variable "env" {
  type    = string
  default = "dev"
}

variable "replicas" {
  default = []
}

locals {
  prefix = "shop-${var.env}"
  key    = lower("PK")
  sparse = { byStatus = { hash = "status", include = ["total", "customer"] } }
  tags   = merge({ team = "shop" }, { env = var.env })
}

resource "aws_dynamodb_table" "orders" {
  name         = "${local.prefix}-orders"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = local.key
  range_key    = "createdAt"

  attribute {
    name = local.key
    type = "S"
  }
  attribute {
    name = "createdAt"
    type = "N"
  }
  attribute {
    name = "status"
    type = "S"
  }
  attribute {
    name = "digest"
    type = "B"
  }

  dynamic "global_secondary_index" {
    for_each = local.sparse
    content {
      name               = global_secondary_index.key
      hash_key           = global_secondary_index.value.hash
      range_key          = "createdAt"
      projection_type    = "INCLUDE"
      non_key_attributes = global_secondary_index.value.include
    }
  }

  local_secondary_index {
    name            = "byDigest"
    range_key       = "digest"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "expiresAt"
    enabled        = true
  }

  stream_enabled   = true
  stream_view_type = "NEW_IMAGE"

  point_in_time_recovery {
    enabled = var.env == "prod" ? true : false
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = data.aws_kms_key.shop.arn
  }

  dynamic "replica" {
    for_each = var.replicas
    content {
      region_name = replica.value
    }
  }

  tags = local.tags
}

resource "aws_dynamodb_table" "counters" {
  for_each       = toset(["daily", "hourly"])
  name           = "${local.prefix}-${each.key}"
  read_capacity  = 5
  write_capacity = each.key == "hourly" ? 50 : 5
  hash_key       = "id"

  attribute {
    name = "id"
    type = "S"
  }
  attribute {
    name = "tenant"
    type = "S"
  }
  attribute {
    name = "region"
    type = "S"
  }

  global_secondary_index {
    name            = "byTenant"
    projection_type = "ALL"
    read_capacity   = 7
    write_capacity  = 5
    key_schema {
      attribute_name = "tenant"
      key_type       = "HASH"
    }
    key_schema {
      attribute_name = "region"
      key_type       = "HASH"
    }
  }

  tags = { owner = aws_iam_role.owner.name }
}

resource "aws_dynamodb_table" "off" {
  count    = var.env == "prod" ? 1 : 0
  name     = "never"
  hash_key = "id"
}

resource "aws_appautoscaling_target" "daily_read" {
  max_capacity       = 100
  min_capacity       = 5
  resource_id        = "table/${aws_dynamodb_table.counters["daily"].name}"
  scalable_dimension = "dynamodb:table:ReadCapacityUnits"
  service_namespace  = "dynamodb"
}

resource "aws_appautoscaling_policy" "daily_read" {
  name               = "daily-read"
  policy_type        = "TargetTrackingScaling"
  resource_id        = aws_appautoscaling_target.daily_read.resource_id
  scalable_dimension = aws_appautoscaling_target.daily_read.scalable_dimension
  service_namespace  = aws_appautoscaling_target.daily_read.service_namespace

  target_tracking_scaling_policy_configuration {
    predefined_metric_specification {
      predefined_metric_type = "DynamoDBReadCapacityUtilization"
    }
    target_value = 60.0
  }
}

resource "aws_appautoscaling_target" "service" {
  max_capacity       = 4
  min_capacity       = 1
  resource_id        = "service/cluster/web"
  scalable_dimension = "ecs:service:DesiredCount"
  service_namespace  = "ecs"
}

resource "aws_s3_bucket" "other" {
  bucket = data.aws_caller_identity.me.account_id
}
