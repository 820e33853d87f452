// Package browser tests the console in a browser.
package browser

import (
	_ "github.com/aws/aws-sdk-go-v2/aws"
	_ "github.com/aws/aws-sdk-go-v2/credentials"
	_ "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	_ "github.com/chromedp/chromedp"

	_ "github.com/stator-db/stator"
)
