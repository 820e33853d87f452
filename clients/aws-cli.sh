#!/bin/sh
# Tests the AWS CLI with a table, at AWS_ENDPOINT_URL.
set -eu

if ! command -v aws >/dev/null; then
	echo "aws-cli: skipped, aws is not installed (Debian: apt install awscli)"
	exit 0
fi

# Older versions do not read the endpoint from the environment.
dynamodb() { AWS_PAGER='' aws --endpoint-url "$AWS_ENDPOINT_URL" --output text dynamodb "$@"; }

same() { # name, got, want
	if [ "$2" != "$3" ]; then
		echo "aws-cli: $1 is '$2', want '$3'" >&2
		exit 1
	fi
}

dynamodb create-table --table-name Orders \
	--attribute-definitions AttributeName=customer,AttributeType=S AttributeName=placed,AttributeType=S \
	--key-schema AttributeName=customer,KeyType=HASH AttributeName=placed,KeyType=RANGE \
	--billing-mode PAY_PER_REQUEST --tags Key=team,Value=shop >/dev/null
dynamodb wait table-exists --table-name Orders
same status "$(dynamodb describe-table --table-name Orders --query Table.TableStatus)" ACTIVE
arn=$(dynamodb describe-table --table-name Orders --query Table.TableArn)
same tag "$(dynamodb list-tags-of-resource --resource-arn "$arn" --query 'Tags[0].Value')" shop

for day in 13 14 15; do
	dynamodb put-item --table-name Orders \
		--item '{"customer": {"S": "ada"}, "placed": {"S": "2026-11-'$day'"}, "price": {"N": "'$day'.50"}}'
done
same price "$(dynamodb get-item --table-name Orders --consistent-read --query Item.price.N \
	--key '{"customer": {"S": "ada"}, "placed": {"S": "2026-11-14"}}')" 14.5
same 'updated price' "$(dynamodb update-item --table-name Orders --return-values UPDATED_NEW --query Attributes.price.N \
	--key '{"customer": {"S": "ada"}, "placed": {"S": "2026-11-14"}}' \
	--update-expression 'SET price = price + :more' --expression-attribute-values '{":more": {"N": "0.5"}}')" 15
same count "$(dynamodb query --table-name Orders --query Count \
	--key-condition-expression 'customer = :c AND placed > :p' --filter-expression 'price > :t' \
	--expression-attribute-values '{":c": {"S": "ada"}, ":p": {"S": "2026-11-13"}, ":t": {"N": "15.2"}}')" 1
same 'items of all pages' "$(dynamodb scan --table-name Orders --page-size 1 --query 'length(Items)' --output json)" 3

if refused=$(dynamodb put-item --table-name Orders --condition-expression 'attribute_not_exists(customer)' \
	--item '{"customer": {"S": "ada"}, "placed": {"S": "2026-11-13"}}' 2>&1); then
	echo "aws-cli: a failing condition is not reported" >&2
	exit 1
fi
case $refused in
*'(ConditionalCheckFailedException) when calling the PutItem operation: The conditional request failed'*) ;;
*) same refusal "$refused" ConditionalCheckFailedException ;;
esac

dynamodb delete-table --table-name Orders >/dev/null
dynamodb wait table-not-exists --table-name Orders
same tables "$(dynamodb list-tables --query 'length(TableNames)' --output json)" 0
echo "aws-cli: ok, $(aws --version 2>&1 | cut -d' ' -f1)"
