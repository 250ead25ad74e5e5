package demo

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"github.com/boombuler/barcode"
	"github.com/boombuler/barcode/qr"
)

// quietZone is the width of the border of a QR code in modules (ISO/IEC 18004, section 5.3.8).
const quietZone = 4

// A symbol is the input of drawQRCode.
type symbol struct {
	Text  string `json:"text"`
	Scale int    `json:"scale"`
}

// drawQRCode returns a QR code as a PNG image.
func drawQRCode(in symbol) (any, *failure) {
	code, err := qr.Encode(in.Text, qr.M, qr.Auto)
	if err != nil {
		return nil, &failure{Code: "QR_ERROR", Message: err.Error()}
	}
	scale := min(max(in.Scale, 1), 16)
	size := code.Bounds().Dx() * scale
	if code, err = barcode.Scale(code, size, size); err != nil {
		return nil, &failure{Code: "QR_ERROR", Message: err.Error()}
	}
	margin := quietZone * scale
	canvas := image.NewGray(image.Rect(0, 0, size+2*margin, size+2*margin))
	draw.Draw(canvas, canvas.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(canvas, image.Rect(margin, margin, margin+size, margin+size), code, code.Bounds().Min, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, canvas); err != nil {
		return nil, &failure{Code: "QR_ERROR", Message: err.Error()}
	}
	return struct {
		MediaType  string `json:"media_type"`
		DataBase64 []byte `json:"data_base64"` // marshaled as base64
		Width      int    `json:"width"`
	}{"image/png", b.Bytes(), canvas.Bounds().Dx()}, nil
}
